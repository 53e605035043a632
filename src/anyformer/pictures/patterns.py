"""The distinct masks of an architecture at a length, and the masks of each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from anyformer.costs.page import longest
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.parts import Bidirectional
from anyformer.parts.call.shared import SOURCE
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sublayer import Sublayer

SHORTEST = 32
"""Positions at which a mask without a pattern of its own is drawn: a triangle, a square."""
SPANS = 3
"""Windows, chunks or strides of a mask that are drawn at least."""


@dataclass(frozen=True)
class Pattern:
    """One mask between T queries and S keys; `across`: the keys are those of the other sequence."""

    mask: Mask
    queries: int
    keys: int
    prefix: int = 0
    across: bool = False

    @cached_property
    def pairs(self) -> int:
        """Allowed (query, key) pairs."""
        return self.mask.ranges(np.arange(self.queries, dtype=np.int64), self.keys, self.prefix).pairs

    @property
    def share(self) -> float:
        """Share of all pairs that are allowed."""
        return self.pairs / (self.queries * self.keys)

    @property
    def title(self) -> str:
        """The mask in words."""
        if self.across:
            return "cross-attention: all of the source"
        return self.mask.words + (f", a prefix of {self.prefix:,}" if self.prefix else "")


@dataclass(frozen=True)
class Strip:
    """The layers of a stack: the names of their variants, the numbers of their patterns, and mixers without a mask."""

    stack: str
    variants: tuple[str, ...]
    layers: tuple[tuple[int, ...], ...]
    unmasked: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        """`decoder, 62 layers: 52 local, 10 global`."""
        counts = Counter(self.variants)
        named = f": {', '.join(f'{count} {name}' for name, count in counts.items())}" if len(counts) > 1 else ""
        return f"{self.stack}, {len(self.layers)} layers{named}"


@dataclass(frozen=True)
class Patterns:
    """Every distinct pattern with its places (`decoder.local.attention`), and a strip per stack."""

    places: Mapping[Pattern, tuple[str, ...]]
    strips: tuple[Strip, ...]

    def holders(self, number: int) -> str:
        """`52 of 62 decoder layers`."""
        counts = {strip: sum(number in layer for layer in strip.layers) for strip in self.strips}
        return ", ".join(
            f"{'all' if count == len(strip.layers) else f'{count} of'} {len(strip.layers)} {strip.stack} layers"
            for strip, count in counts.items()
            if count
        )


def masks_of(architecture: Architecture) -> dict[Mask, list[str]]:
    """Every mask with its places, `decoder.local.attention`, in the order computed."""
    places: dict[Mask, list[str]] = {}
    for stack, variant, branch, sublayer in _sublayers(architecture):
        for mask in sublayer.masks:
            places.setdefault(mask, []).append(f"{stack}.{variant}.{branch}")
    return places


def telling_length(architecture: Architecture) -> int:
    """A length that shows every mask's pattern: a power of two, at least three spans, no longer than a position table."""
    span = max((mask.span for mask in masks_of(architecture)), default=1)
    length = SHORTEST if span == 1 else max(SHORTEST, 1 << (SPANS * span - 1).bit_length())
    return min(length, longest(architecture) or length)


def patterns_of(architecture: Architecture, length: int) -> Patterns:
    """The patterns of a call of `length` positions; the prefix of a mask that has one is a quarter of it."""
    call = Shape(length=length, source=architecture.source_of(length), prefix=length // 4)
    places: dict[Pattern, list[str]] = {}
    of_variant: dict[tuple[str, str], list[Pattern]] = {}
    unmasked: dict[tuple[str, str], list[str]] = {}
    for stack, variant, branch, sublayer in _sublayers(architecture):
        patterns = list(_patterns(sublayer, architecture.shape_of(stack, call) or call))
        for pattern in patterns:
            places.setdefault(pattern, []).append(f"{stack}.{variant}.{branch}")
        of_variant.setdefault((stack, variant), []).extend(patterns)
        if not patterns and sublayer.traits.mixing is not None:
            unmasked.setdefault((stack, variant), []).append(sublayer.traits.mixing)
    numbers = {pattern: i for i, pattern in enumerate(places)}
    strips = [
        Strip(
            name,
            stack.layers,
            tuple(tuple(dict.fromkeys(map(numbers.__getitem__, of_variant.get((name, layer), ())))) for layer in stack.layers),
            tuple(tuple(unmasked.get((name, layer), ())) for layer in stack.layers),
        )
        for name, stack in architecture.stacks.items()
    ]
    return Patterns({pattern: tuple(names) for pattern, names in places.items()}, tuple(strips))


def _sublayers(architecture: Architecture) -> Iterator[tuple[str, str, str, Sublayer]]:
    """(stack, variant, branch, sublayer), in the order computed."""
    for stack_name, stack in architecture.stacks.items():
        for variant, block in stack.variants.items():
            for name, branch in block.branches.items():
                yield stack_name, variant, name, branch.sublayer


def _patterns(sublayer: Sublayer, shape: Shape) -> Iterator[Pattern]:
    """The patterns of a sublayer's masks, and the whole source where it reads one."""
    for mask in sublayer.masks:
        has_prefix = mask.pairs(shape) != mask.pairs(replace(shape, prefix=0))
        yield Pattern(mask, shape.length, shape.length, shape.prefix if has_prefix else 0)
    if SOURCE in sublayer.reads:
        yield Pattern(Bidirectional(), shape.length, shape.source, across=True)
