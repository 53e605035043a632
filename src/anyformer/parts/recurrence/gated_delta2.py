"""Gated DeltaNet-2: a delta rule that erases by feature of the key and writes by feature of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.convolved_heads import DeltaHeads
from anyformer.parts.recurrence.decay import ChannelDecay
from anyformer.parts.recurrence.head_outputs import heads_read
from anyformer.parts.recurrence.recurrent_work import generalised_delta_flops
from anyformer.parts.sketch import Cell, Sketch, chain, fan
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.recurrence.gated_delta2_module import GatedDelta2Module


class GatedDelta2(DeltaHeads):
    """S_t = (I - k_t (b_t * k_t)^T) diag(decay_t) S_{t-1} + k_t (w_t * v_t)^T, o_t = scale * q_t S_t, then gate(norm(o)) W_o.

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v: (B, T, H, E) likewise but not divided; b =
    erase_scale * sigmoid(x W_b): (B, T, H, M); w = sigmoid(x W_w): (B, T, H, E); S: (M, E) per head, in fp32. Kimi's delta
    attention has one beta for both: with b = w = beta this is `DeltaAttention` with a `ChannelDecay` ("Gated DeltaNet-2:
    Decoupling Erase and Write in Linear Attention", as flash-linear-attention has it).
    """

    kind: Literal["gated_delta_2"] = "gated_delta_2"
    decay: ChannelDecay = ChannelDecay()
    """Of every key feature, by the input (the reference: through `rank` = E features)."""
    erase_scale: Annotated[float, Field(gt=0, le=2)] = 1.0
    """Above 1 the state can change sign along a key."""

    def sketch(self, width: int) -> Sketch:
        state = Cell(f"state {self.heads} × ({self.key_width} × {self.columns}), delta rule", "memory")
        read = fan(*self.sides(), Cell("erased, written and kept by feature", "memory"))
        return heads_read("Gated delta net 2", chain(read, state), self.norm, self.gate, width)

    @property
    def traits(self) -> Traits:
        return Traits("delta")

    def build(self, width: int, plan: Plan, name: str) -> GatedDelta2Module:
        from anyformer.parts.recurrence.gated_delta2_module import GatedDelta2Module

        return GatedDelta2Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, H, M, E = shape.rows, self.heads, self.key_width, self.columns
        parts, inner = self.around(width, shape, plan), {"decay": self.decay.cost(width, H, M, rows)}
        for name, features in {"erase_gate": H * M, "write_gate": H * E}.items():
            parts += matrix(name, width, features, rows, role="column")
            inner[f"{name}_activation"] = ACTIVATIONS["sigmoid"].cost(features, rows, gated=True)
        return parts + total(inner) + generalised_delta_flops(shape.batch, H, M, E, shape.length, plan.chunk)

    def watchable(self, width: int) -> Watchables:
        H, M = self.heads, self.key_width
        found = {"erase": value("BTHM", "how much is erased along a key feature", H=H, M=M)}
        found["write"] = value("BTHE", "how much of a value feature is written", H=H, E=self.columns)
        return found | {"log_decay": value("BTHM", "log-decays of the key features", H=H, M=M)} | super().watchable(width)
