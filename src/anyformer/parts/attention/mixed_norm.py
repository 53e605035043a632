"""A norm of each mixed head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Positive
from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Cell, Flow, chain
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class MixedNorm(Combine):
    """y' = factor * norm(y), y (B, H, T, U) the mixed values, head by head, with one gain for all heads.

    Muse Spark; with factor U^-0.5 and no gain the length of every head is 1 (YOSO, arXiv 2111.09714, section 3.4).
    """

    name: ClassVar[str] = "mixed_norm"
    order: ClassVar[int] = -3
    short: ClassVar[str] = "norm"
    through: ClassVar[tuple[str, ...]] = ("norm",)
    rules_out: ClassVar[frozenset[Way]] = frozenset({"pairs of heads", "latent"})
    normalises: ClassVar[bool] = True
    norm: Norm
    factor: Positive = 1.0

    @property
    def technique(self) -> str:
        return "norm of mixed heads"

    def drawn(self, flow: Flow) -> Flow:
        return chain(flow, Cell("norm of each head", "norm"))

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"mixed_norm": self.norm.build(sizes.mixed[1])}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        heads, width = sizes.mixed
        return total({"mixed_norm": self.norm.cost(width, shape.rows * heads)})

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        normed: Tensor = call.built("mixed_norm")(y_BHTU)
        return normed if self.factor == 1 else normed * self.factor
