"""Learned factors of queries and of an output gate's input, where heads are of length 1 (nGPT)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Dimension, Shape, Tally, total
from anyformer.operations.elementwise import gated
from anyformer.parts.attention.combining import OutputGate
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.pointwise.scaled_gain import ScaledGain
from anyformer.parts.sketch import Cell
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    from torch import Tensor


class QueryGain(Adjustment, ScaledGain):
    """q = g^2 q behind the rotation, g (H, E) learned, a `ScaledGain`: how sharp heads attend whose queries have length 1.

    nGPT multiplies queries and keys by one g each (Loshchilov et al. 2024, arXiv 2410.01131, section 2.3.2); the square on
    the queries alone serves heads that share keys as well (Dory, NVIDIA 2026; transformers 5.24).
    """

    name: ClassVar[str] = "query_gain"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"source", "layout", "latent"})

    @property
    def cell(self) -> Cell:
        return Cell("learned factor of queries", "pointwise")

    @property
    def cell_at(self) -> Literal["placed"]:
        return "placed"

    @property
    def technique(self) -> str:
        return "query gain"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.scaled_heads_module import empty_gain

        return {"query_gain": empty_gain(sizes.features("query"))}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        axes: Dimension = (("heads", sizes.heads), ("features", sizes.head_width))
        weight = self.weight(sizes.features("query"), "column", (axes,))
        return Tally({"query_gain": weight}, {"query_gain": gated(shape.rows * sizes.features("query"))})

    def placed(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        if side != "query":
            return y_BTHE
        gain_HE: Tensor = self.taken(call.built("query_gain")).view(y_BTHE.shape[-2:])
        return y_BTHE * gain_HE.square().to(y_BTHE.dtype)


class GainedGate(OutputGate):
    """The mixed heads times act(g^2 * (x W_g)), g a `ScaledGain` of every gate (Dory, NVIDIA 2026; transformers 5.24)."""

    name: ClassVar[str] = "gained_gate"
    rules_out: ClassVar[frozenset[Way]] = frozenset({"two inputs", "layout"})
    gain: ScaledGain = ScaledGain()

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.scaled_heads_module import GainedGateModule

        return {"gained_gate": GainedGateModule(self, sizes.inputs, *sizes.mixed)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        heads, features = sizes.mixed
        gates = self.outputs(heads, features)
        axes: Dimension = (("heads", heads), ("features", features)) if self.per == "feature" else (("heads", heads),)
        gain = Tally({"gain": self.gain.weight(gates, "column", (axes,))}, {"gain": gated(shape.rows * gates)})
        return total({"gained_gate": self.work(sizes.inputs, heads, features, shape.rows) + gain})

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        return call.built("gained_gate")(call.x, y_BTHU)  # type: ignore[no-any-return]
