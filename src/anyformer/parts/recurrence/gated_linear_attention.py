"""Gated linear attention: a state of which every key feature forgets at a rate that the token decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Contraction, Dimension, Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.head_outputs import heads_read, norm_and_gate
from anyformer.parts.recurrence.recurrent_heads import RecurrentHeads
from anyformer.parts.recurrence.recurrent_work import cut, even, recurrent
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.gated_linear_attention_module import GatedLinearAttentionModule


class GatedLinearAttention(RecurrentHeads):
    """S_t = diag(f_t) S_{t-1} + k_t v_t^T, o_t = scale * q_t S_t, then gate(norm of each head) W_o.

        f = l + (1 - l) sigmoid(x W_f + b_f)^(1 / tau): (B, T, H, E), of each key feature; S: (E, E) per head, in fp32

    GLA (Yang et al. 2023, arXiv 2312.06635): W_f through `rank` = 16 features, tau = 16, keys of their own, gate silu.
    HGRN2 (Qin et al. 2024, arXiv 2404.07904): `keys = "complement"`, k = 1 - f, so that a feature is written as far as it
    forgets; q = silu(x W_q), tau = 1, scale 1, and an l that grows with depth, learned there and a number here: variants of
    layers may have their own.
    """

    kind: Literal["gated_linear_attention"] = "gated_linear_attention"
    keys: Literal["projected", "complement"] = "projected"
    """x W_k, or 1 - f."""
    rank: Count | None = None
    """Features that W_f passes through; None projects directly."""
    temperature: Positive = 1.0
    """tau; above 1 the state forgets more slowly."""
    least: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """l, the least that is kept of a feature."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] | None = None
    """Activation of the queries."""
    scale: Positive | None = None
    """Factor of the queries; E^-0.5 by default."""
    norm: Norm | None = None
    """Norm of each head's output, before the gate."""
    gate: Gate | None = None

    def sketch(self, width: int) -> Sketch:
        H, E = self.heads, self.width_of_head(width)
        activation = None if self.activation is None else Cell(activation_name(self.activation, gated=False), "pointwise")
        key = heads_cell("K", H, E) if self.keys == "projected" else Cell("K = 1 − f", "pointwise")
        read = fan(chain(heads_cell("Q", H, E), activation), key, heads_cell("V", H, E), Cell("f by feature", "memory"))
        state = Cell(f"state {H} × ({E} × {E})", "memory")
        notes = biases(self.bias, 4)
        return heads_read("Gated linear attention", chain(read, state), self.norm, self.gate, width, notes=notes)

    @property
    def traits(self) -> Traits:
        return Traits("gated linear")

    def scale_of(self, width: int) -> float:
        """The factor of the queries, as a number."""
        return self.width_of_head(width) ** -0.5 if self.scale is None else self.scale

    def build(self, width: int, plan: Plan, name: str) -> GatedLinearAttentionModule:
        from anyformer.parts.recurrence.gated_linear_attention_module import GatedLinearAttentionModule

        return GatedLinearAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        E, H, rows = self.width_of_head(width), self.heads, shape.rows
        heads: Dimension = (("heads", H), ("features", E))
        parts = Tally()
        for name in ("query", *(("key",) if self.keys == "projected" else ()), "value"):
            parts += matrix(name, width, H * E, rows, role="column", bias=name in self.bias, outputs_as=heads)
        if self.rank is not None:
            parts += matrix("forget_down", width, self.rank, rows, role="replicate")
        parts += matrix("forget", self.rank or width, H * E, rows, role="column", bias=True, outputs_as=heads)
        output = "output" in self.bias
        parts += matrix("output", H * E, width, rows, role="row", bias=output, fill="residual", inputs_as=heads)
        inner = {"forgetting": ACTIVATIONS["sigmoid"].cost(H * E, rows)}
        if self.activation is not None:
            inner["activation"] = ACTIVATIONS[self.activation].cost(H * E, rows)
        inner |= norm_and_gate(self.norm, self.gate, width, H, E, rows)
        products = _products(shape.batch, H, E, shape.length, plan.chunk)
        state = recurrent(shape.batch * H * E * E * SUM_BYTES, shape, H)
        return parts + products + total(inner) + Tally(own_state=state)

    def watchable(self, width: int) -> Watchables:
        decay = value("BTHE", "log-decays of the key features", H=self.heads, E=self.width_of_head(width))
        return {"log_decay": decay, **super().watchable(width)}

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


def _products(batch: int, heads: int, features: int, length: int, chunk: int) -> Tally:
    """FLOPs of `linear_recurrence` from an empty state, with a decay of each key feature."""
    if length == 1:
        return even(read=2 * batch * heads * features**2)
    size, chunks = cut(length, chunk, channels=True)
    rows = batch * heads * chunks * size
    through = 2 * rows * features**2
    # Pairs are products of halves of halves: half of the square (`decayed_products`).
    return even(scores=rows * (size - 1) * features, mix=2 * rows * size * features) + Tally(
        own_work={
            "write": Contraction(through, no_gradient=2 * through if chunks == 1 else 0),
            "read": Contraction(through, no_gradient=through if chunks == 1 else 0),
        }
    )
