"""Lightning attention: linear attention whose state decays at a fixed rate per head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from anyformer.describe import Choice
from anyformer.operations import Shape, Tally, Watchables, total
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.derived import LayerFactor
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads
from anyformer.parts.recurrence.recurrent_work import linear_flops, recurrent
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.lightning_attention_module import LightningAttentionModule


class LightningAttention(RecurrentHeads):
    """o_t = q_t S_t, S_t = exp(-slope_h) S_{t-1} + k_t v_t^T, then gate(norm(heads side by side)) W_o.

    q, k, v = act(x W): (B, T, H, E); S: (E, E) per head; slope_h = decay * 2^(-8 h / H) for h = 1 ... H (Qin et al. 2024, arXiv
    2401.04658; MiniMax-01, 2501.08313). MiniMax: silu, RMSNorm, sigmoid gate, decay `by_layer`. Sums are in fp32. The papers'
    d is E, lambda exp(-slope).
    """

    kind: Literal["lightning_attention"] = "lightning_attention"
    decay: LayerFactor = 1.0
    """Factor of all slopes; with 0 nothing decays. `by_layer`: 1 - l / (L - 1 + 1e-5) + 1e-5 in layer l (from 0) of L."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    """Activation of queries, keys and values, which share its parameters."""
    norm: Norm | None = None
    """Norm of the mixed heads side by side, before the gate."""
    gate: Gate | None = None

    @property
    def slopes(self) -> list[float]:
        """The decay of each head: how much log-weights fall per position."""
        assert not isinstance(self.decay, str), "a number in each layer: see `of_layer`"
        return [self.decay * 2 ** (-8 * (h + 1) / self.heads) for h in range(self.heads)]

    def of_layer(self, layer: int, depth: int) -> Self:
        return self.but(decay=1 - layer / (depth - 1 + 1e-5) + 1e-5) if self.decay == "by_layer" else self

    def sketch(self, width: int) -> Sketch:
        H, E = self.heads, self.width_of_head(width)
        activation = None if self.activation is None else Cell(activation_name(self.activation, gated=False), "pointwise")
        read = chain(fan(*(heads_cell(name, H, E) for name in "QKV")), activation)
        decay = "by layer" if isinstance(self.decay, str) else number(self.decay)
        state = Cell(f"state {H} × ({E} × {E}), decay {decay}", "memory")
        mixed = chain(read, state, None if self.norm is None else Cell("norm of all heads", "norm"))
        return Sketch(
            "Lightning attention", biases(self.bias, 4), chain(gated(mixed, self.gate), Cell(f"output {number(width)}"))
        )

    @property
    def traits(self) -> Traits:
        return Traits("lightning")

    def build(self, width: int, plan: Plan, name: str) -> LightningAttentionModule:
        from anyformer.parts.recurrence.lightning_attention_module import LightningAttentionModule

        return LightningAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        E, H, rows = self.width_of_head(width), self.heads, shape.batch * shape.length
        inner = {"norm": self.norm.cost(H * E, rows)} if self.norm else {}
        if self.activation is not None:
            inner["activation"] = ACTIVATIONS[self.activation].cost(H * E, rows)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        return (
            self.projections(width, rows)
            + linear_flops(shape.batch, H, H, E, E, shape.length, plan.chunk)
            + total(inner)
            + Tally(own_state=recurrent(shape.batch * H * E * E * SUM_BYTES, shape, H))
        )

    def state_seen(self, width: int) -> Watchables:
        E = self.width_of_head(width)
        return state_seen("BHnME", H=self.heads, n=1, M=E, E=E)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * E * E elements, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        E = self.width_of_head(width)
        return RecurrentState.empty(batch, self.heads, 1, E, E, device=device)
