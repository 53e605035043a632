"""What is left to choose where a change of architecture can be made in several ways."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import change
from anyformer.model import Architecture
from anyformer.parts.layers.order import write_order
from anyformer.transforming.errors import TransformError

_RUN = re.compile(r"(\d+)(?:-(\d+))?")
MOST = 10_000


@dataclass(frozen=True)
class TransformChoices:
    """The choices of a change: which layers are taken, how added ones, longer tables and new weights are made."""

    layers: tuple[int, ...] | None = None
    """For each layer of the result, the old layer that it comes from; of a number's occurrences all but the first are added
    layers. None: spread evenly."""
    grow: Literal["silent", "copied"] = "silent"
    """Added layers: copies that write nothing to the stream at first, or plain copies."""
    positions: Literal["copied", "interpolated"] = "copied"
    """Longer tables of positions: the old rows again and again, or the whole table stretched."""
    noise: float = 0.0
    """New rows of a vocabulary: their mean, plus so many standard deviations of noise."""
    seed: int = 0
    """Of new weights and of noise."""

    def __post_init__(self) -> None:
        if self.noise < 0:
            raise TransformError(f"noise = {self.noise}: should be 0 or more standard deviations")


def chosen(architecture: Architecture, layers: tuple[int, ...]) -> Architecture:
    """The architecture with these of its layers, in this order, in the stack that the head reads."""
    stack = architecture.output_stack
    if max(layers) >= stack.depth:
        raise TransformError(f"layer {max(layers)} is chosen, and the last of {stack.depth} is {stack.depth - 1}")
    names = [stack.layers[i] for i in layers]
    if idle := sorted(set(stack.variants) - set(names)):
        raise TransformError(f"no layer of the variant {idle[0]!r} is chosen; choose one, or set the order and the variants")
    (path,) = (f"{name}.order" for name, each in architecture.stacks.items() if each is stack)
    return change(architecture, path, write_order(names))


def parse_layers(text: str) -> tuple[int, ...]:
    """Layer numbers as typed: `0-3,2,8-5` is 0 1 2 3 2 8 7 6 5."""
    numbers: list[int] = []
    for item in text.split(","):
        run = _RUN.fullmatch(item.strip())
        if run is None:
            raise TransformError(f"layers {text!r}: {item.strip()!r} is no number of a layer and no run such as 0-3")
        first, last = int(run[1]), int(run[2] or run[1])
        if abs(last - first) >= MOST:
            raise TransformError(f"layers {text!r}: {item.strip()!r} has more than {MOST:,} layers")
        numbers += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return tuple(numbers)
