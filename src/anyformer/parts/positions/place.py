"""The slot of attention in which queries and keys learn their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from anyformer.describe import Part
from anyformer.parts.slot import Side, SlotPart

if TYPE_CHECKING:
    from torch import Tensor


class Positioned(Protocol):
    """What a call knows about positions."""

    @property
    def positions(self) -> Tensor:
        """(B or 1, T)."""

    def rotated(self, x_BTHE: Tensor, rotary: Any) -> Tensor:
        """Heads rotated by these positions."""


class Place(Part, SlotPart):
    """The base of what position does to queries and keys."""

    members: ClassVar[dict[str, type[Part]]] = {}

    def turned(self, x_BTHE: Tensor, side: Side, context: Positioned, built: Any) -> Tensor:
        """Queries or keys by their positions; `built`: the attention, which has what `build` made."""
        return x_BTHE

    def scaled(self, q_BTHE: Tensor, context: Positioned) -> Tensor:
        """Queries times a factor by their positions, after everything else."""
        return q_BTHE
