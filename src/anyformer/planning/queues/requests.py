"""Requests that come to a service: when, with how long a prompt, for how long an answer, and which beginning they share."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import UserError, did_you_mean
from anyformer.planning.queues.distributions import Lengths

MOST_REQUESTS = 2_000_000
COLUMNS = ("arrived", "prompt", "output")


@dataclass(frozen=True, eq=False)
class ArrivingRequests:
    """`count` requests in the order of `arrived` (seconds); tokens of each `prompt` and `output`.

    `shared`: tokens at the beginning of a prompt that every request of its `group` begins with; 0 where nothing is shared.
    `steps`: decoding steps that its tokens behind the first take, `output` - 1 but with speculative decoding.
    """

    arrived: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    shared: NDArray[np.int64]
    group: NDArray[np.int64]
    steps: NDArray[np.int64]

    @property
    def count(self) -> int:
        return len(self.arrived)

    @property
    def rate(self) -> float:
        """Requests a second, from the first to the last."""
        span = float(self.arrived[-1] - self.arrived[0])
        return (self.count - 1) / span if span > 0 else math.inf

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and its answer."""
        return int((self.prompt + self.output).max())

    def first(self, count: int) -> ArrivingRequests:
        """The first of them."""
        return ArrivingRequests(*(each[:count] for each in (getattr(self, name.name) for name in fields(self))))

    def every(self, stride: int, first: int) -> ArrivingRequests:
        """One in so many, from a first one on."""
        return ArrivingRequests(*(getattr(self, name.name)[first::stride] for name in fields(self)))

    def at_rate(self, rate: float) -> ArrivingRequests:
        """The same requests, coming `rate` a second: the gaps between them are stretched."""
        return replace(self, arrived=self.arrived * (self.rate / rate))


@dataclass(frozen=True)
class Traffic:
    """Requests of a kind: `rate` a second on average.

    `burst`: standard deviation of the gaps between requests over their mean, of the gamma distribution: 1 for independent
    requests (a Poisson process), 0 for a clock's, above 1 where they come in bursts. `shared`: tokens that prompts begin with
    in common, in each of `groups` equally frequent groups.
    """

    rate: float
    prompt: Lengths
    output: Lengths
    burst: float = 1.0
    shared: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise UserError(f"requests come {self.rate:g} a second: give a rate above 0")
        if not (self.burst >= 0 and math.isfinite(self.burst)):
            raise UserError(f"gaps between requests have a deviation of {self.burst:g} times their mean: give 0 or more")
        if self.shared < 0 or self.groups < 1:
            raise UserError(f"{self.groups} groups share {self.shared} tokens: give 1 or more groups, and 0 or more tokens")

    def draw(self, count: int, seed: int = 0) -> ArrivingRequests:
        """`count` requests; the same seed gives the same ones, and those of another rate come in the same order."""
        if not 2 <= count <= MOST_REQUESTS:
            raise UserError(f"{count:,} requests are simulated: give 2 to {MOST_REQUESTS:,}")
        gaps, prompts, outputs, groups = (np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(4))
        output = self.output.draw(outputs, count)
        prompt = self.prompt.draw(prompts, count)
        return ArrivingRequests(
            np.cumsum(self._gaps(gaps, count)),
            prompt,
            output,
            np.minimum(self.shared, prompt - 1),
            groups.integers(self.groups, size=count),
            output - 1,
        )

    def _gaps(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        """(count,) seconds between requests."""
        mean = 1 / self.rate
        if self.burst == 0:
            return np.full(count, mean)
        shape = self.burst**-2
        return generator.gamma(shape, mean / shape, count)


def read(path: Path) -> ArrivingRequests:
    """The requests of a CSV file with the columns arrived (seconds), prompt and output (tokens). Raises `UserError`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeError, csv.Error) as error:
        raise UserError(f"{path}: the requests cannot be read ({error})") from None
    if len(rows) < 2:
        raise UserError(f"{path}: {len(rows)} requests: give a heading {','.join(COLUMNS)} and at least 2 rows")
    for name in COLUMNS:
        if name not in rows[0]:
            raise UserError(f"{path} has no column {name!r}{did_you_mean(name, rows[0])}: give {','.join(COLUMNS)}")
    try:
        arrived, prompt, output = (np.array([float(row[name]) for row in rows]) for name in COLUMNS)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: a figure is no number ({error})") from None
    wrong = ~(np.isfinite(arrived) & (prompt >= 1) & (output >= 1) & (prompt == prompt // 1) & (output == output // 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UserError(
            f"{path}: row {row + 2} has {rows[row]}: arrived is in seconds, prompt and output are whole tokens from 1 on"
        )
    order = np.argsort(arrived, kind="stable")
    prompt, output = prompt[order].astype(np.int64), output[order].astype(np.int64)
    nothing = np.zeros(len(rows), dtype=np.int64)
    return ArrivingRequests(arrived[order], prompt, output, nothing, nothing, output - 1)
