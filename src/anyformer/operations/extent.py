"""Parts of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """A box of a tensor's elements: the first one, and how many there are, in every dimension."""

    start: tuple[int, ...]
    size: tuple[int, ...]

    @staticmethod
    def all_of(shape: tuple[int, ...]) -> Extent:
        return Extent((0,) * len(shape), shape)

    @property
    def count(self) -> int:
        return math.prod(self.size)

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(start, start + size) for start, size in zip(self.start, self.size, strict=True))

    def common(self, other: Extent) -> Extent:
        """The elements of both, which may be none."""
        start = tuple(map(max, self.start, other.start))
        ends = (min(a + n, b + m) for a, n, b, m in zip(self.start, self.size, other.start, other.size, strict=True))
        return Extent(start, tuple(max(end - begin, 0) for begin, end in zip(start, ends, strict=True)))

    def within(self, other: Extent) -> Extent:
        """The same elements, counted from the first one of `other`."""
        return Extent(tuple(a - b for a, b in zip(self.start, other.start, strict=True)), self.size)
