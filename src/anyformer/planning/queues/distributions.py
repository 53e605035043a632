"""Lengths of prompts and of answers as people write them: `512`, `uniform(100, 900)`, `lognormal(700, 1.1)`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import UserError, did_you_mean
from anyformer.describe.amounts import BINARY

LengthShape = Literal["constant", "uniform", "exponential", "lognormal"]
SHAPES: Mapping[LengthShape, tuple[str, ...]] = {
    "constant": ("tokens",),
    "uniform": ("least", "most"),
    "exponential": ("mean",),
    "lognormal": ("median", "sigma"),
}
"""Shapes of a distribution, and the numbers that each takes."""
LIKE = "512, uniform(100, 900), exponential(300) or lognormal(700, 1.1)"
MOST = 2**24
"""Most tokens of one text."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of a text: at least 1, at most `most`, drawn independently.

    `lognormal(m, s)`: m e^(s z), z of the standard normal distribution: half of all are below m. `exponential(m)`: of mean m.
    What is drawn is rounded to whole tokens and kept within 1 and `most`.
    """

    shape: LengthShape
    numbers: tuple[float, ...]
    most: int = MOST

    def __post_init__(self) -> None:
        for name, number in zip(SHAPES[self.shape], self.numbers, strict=True):
            if not (math.isfinite(number) and number > 0 and (name == "sigma" or 1 <= number <= MOST)):
                raise UserError(f"{self}: {name} is {number:g}, and should be {'above 0' if name == 'sigma' else 'from 1 on'}")
        if self.shape == "uniform" and self.numbers[0] > self.numbers[1]:
            raise UserError(f"{self} ends before it begins: give uniform({self.numbers[1]:g}, {self.numbers[0]:g})")

    def __str__(self) -> str:
        inner = ", ".join(f"{number:g}" for number in self.numbers)
        return inner if self.shape == "constant" else f"{self.shape}({inner})"

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.int64]:
        """(count,) lengths."""
        first, *rest = self.numbers
        if self.shape == "constant":
            drawn = np.full(count, first)
        elif self.shape == "uniform":
            drawn = generator.uniform(first - 0.5, rest[0] + 0.5, count)
        elif self.shape == "exponential":
            drawn = generator.exponential(first, count)
        else:
            drawn = first * np.exp(rest[0] * generator.standard_normal(count))
        whole: NDArray[np.int64] = np.clip(np.rint(drawn), 1, self.most).astype(np.int64)
        return whole

    def mean(self) -> float:
        """Mean before rounding and limits."""
        first, *rest = self.numbers
        return {
            "constant": lambda: first,
            "uniform": lambda: (first + rest[0]) / 2,
            "exponential": lambda: first,
            "lognormal": lambda: first * math.exp(rest[0] ** 2 / 2),
        }[self.shape]()


def lengths(text: str, most: int = MOST) -> Lengths:
    """The distribution that a text names. Raises `UserError`."""
    written = str(text).strip().lower()
    match = re.fullmatch(r"([a-z]+)\(([^()]*)\)", written)
    if match is None:
        return Lengths("constant", (_number(text, written),), most)
    shape, inner = match[1], [part.strip() for part in match[2].split(",")]
    known = next((each for each in SHAPES if each == shape), None)
    if known is None:
        raise UserError(f"{text!r}: {shape!r} is no distribution{did_you_mean(shape, SHAPES)}: give {LIKE}")
    wanted = SHAPES[known]
    if len(inner) != len(wanted):
        raise UserError(f"{text!r}: {shape} takes {' and '.join(wanted)}, got {len(inner)} numbers: give {LIKE}")
    return Lengths(known, tuple(_number(text, part) for part in inner), most)


def _number(text: str, part: str) -> float:
    """A number as it is written; k is 1,024."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([km]?)", part)
    if match is None:
        raise UserError(f"{text!r} is no number of tokens, nor a distribution of them: give {LIKE}")
    return float(match[1]) * (BINARY[match[2]])
