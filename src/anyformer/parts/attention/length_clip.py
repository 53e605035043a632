"""A bound of the length of queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Positive
from anyformer.operations import Dimension, Elementwise, Shape, Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.sketch import Cell, number
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    from torch import Tensor

WORK = 3
"""Operations on a feature: square, sum, product."""


class LengthClip(Adjustment):
    """q, k -> min(1, c / |q|) q, and so k, head by head, q times a learned factor of every feature first (Inkling 2, Thinking
    Machines 2026; transformers 5.23): a norm that leaves short vectors as they are. Its factors are (H, E)."""

    name: ClassVar[str] = "length_clip"
    order: ClassVar[int] = 2
    short: ClassVar[str] = "bound"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"layout", "latent"})
    bound: Positive
    """c."""

    @property
    def words(self) -> tuple[str, ...]:
        return (f"queries and keys of length {number(self.bound)} at most",)

    @property
    def cell(self) -> Cell:
        return Cell(f"length ≤ {number(self.bound)}", "norm")

    @property
    def technique(self) -> str:
        return "length clip"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        return parameters({"query_scale": (sizes.heads, sizes.head_width)})

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        axes: tuple[Dimension, ...] = ((("heads", sizes.heads),), (("features", sizes.head_width),))
        weight = Weight((sizes.heads, sizes.head_width), "column", "ones", linear=False, axes=axes)
        work = {"query_clip": self._work(sizes.head_width, shape.rows * sizes.heads, scaled=True)}
        if sizes.own_keys:
            work["key_clip"] = self._work(sizes.head_width, key_rows * sizes.groups, scaled=False)
        return Tally({"query_scale": weight}, dict(work))

    def _work(self, features: int, vectors: int, *, scaled: bool) -> Elementwise:
        return normalised(features, vectors, (WORK + scaled) * features)

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.length_clip_module import clipped

        if side == "value":
            return y_BTHE
        return clipped(y_BTHE, self.bound, call.built("query_scale") if side == "query" else None)
