"""The sizes of one call."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.describe import UserError
from anyformer.dims import LARGEST, LONGEST

_BOUNDS = (
    ("batch", 1, LARGEST),
    ("length", 1, LONGEST),
    *((name, 0, LONGEST) for name in ("past", "source", "prefix", "images", "audio", "frames", "ahead")),
)
"""(field, least, greatest value)."""


@dataclass(frozen=True)
class Shape:
    """The sizes of one call: B rows of T new positions after `past` cached ones; S keys in all.

    `source`: the length of the encoder's output; `prefix`: positions at the start that see one another both ways; `capacity`:
    the positions for which decode state is allocated (default: past + length); `images`, `audio`: images and sounds of each
    row; `frames`: of each sound, 0: of the longest that is heard; `ahead`: pairs of a row in which a query sees a later key
    beside those of its mask.
    """

    batch: int = 1
    length: int = 1
    past: int = 0
    source: int = 0
    prefix: int = 0
    capacity: int | None = None
    images: int = 0
    audio: int = 0
    frames: int = 0
    ahead: int = 0

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            given = getattr(self, name)
            if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
                raise UserError(f"{name} should be a whole number from {low} to {high:,}, got {given!r}")
        if self.capacity is not None and self.capacity < self.keys:
            raise UserError(f"capacity {self.capacity} cannot hold past + length = {self.keys} positions")

    @property
    def rows(self) -> int:
        """B * T, the new positions of all rows."""
        return self.batch * self.length

    @property
    def keys(self) -> int:
        """S, the cached and the new positions of one row."""
        return self.past + self.length

    @property
    def cache_length(self) -> int:
        """Positions for which decode state is allocated, used or not."""
        return self.keys if self.capacity is None else self.capacity
