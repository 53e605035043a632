"""What is usually done with the mixed heads: a gate, and a norm of all side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.heads_sketch import gated
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.sketch import Cell, Flow, chain
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class OutputGate(Combine, Gate):
    """The mixed heads times a nonlinearity of what queries read (Qiu et al. 2025, arXiv 2505.06708)."""

    name: ClassVar[str] = "gate"
    short: ClassVar[str] = "per"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"two inputs"})

    @classmethod
    def given(cls, item: Any) -> Any:
        return item.plain() if type(item) is Gate else super().given(item)

    @property
    def technique(self) -> str:
        return "output gate"

    def drawn(self, flow: Flow) -> Flow:
        return gated(flow, self)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"gate": self.module(sizes.inputs, *sizes.mixed)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return total({"gate": self.work(sizes.inputs, *sizes.mixed, shape.rows)})

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        return call.built("gate")(call.x, y_BTHU)  # type: ignore[no-any-return]


class SubNorm(Combine):
    """A norm of the mixed heads side by side (BitNet, Magneto)."""

    name: ClassVar[str] = "sub_norm"
    order: ClassVar[int] = 1
    short: ClassVar[str] = "norm"
    through: ClassVar[tuple[str, ...]] = ("norm",)
    rules_out: ClassVar[frozenset[Way]] = frozenset({"divided heads", "latent"})
    normalises: ClassVar[bool] = True
    norm: Norm

    @property
    def technique(self) -> str:
        return "sub-norm"

    def drawn(self, flow: Flow) -> Flow:
        return chain(flow, Cell("norm of all heads", "norm"))

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"sub_norm": self.norm.build(sizes.mixed[0] * sizes.mixed[1])}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return total({"sub_norm": self.norm.cost(sizes.mixed[0] * sizes.mixed[1], shape.rows)})

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        normed: Tensor = call.built("sub_norm")(y_BTHU.flatten(2))
        return normed.view(y_BTHU.shape)
