"""A change of one size of a weight."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resized:
    """The size `old` of one factor of a weight becomes `new`; `where`: its place, for people."""

    where: str
    path: str
    """The name of the weight in the new model."""
    old: int
    new: int
    writes: bool
    """Whether the weight writes to the residual stream."""

    @property
    def grows(self) -> bool:
        return self.new > self.old
