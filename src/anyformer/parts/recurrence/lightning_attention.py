"""Lightning attention: linear attention whose state decays at a fixed rate per head."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from torch import Tensor, nn

from anyformer.describe import Choice
from anyformer.operations import Shape, Tally, total
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.constant import listed
from anyformer.parts.derived import LayerFactor
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name, built_activation
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_flops, linear_recurrence, recurrent
from anyformer.parts.recurrence.recurrent_heads import (
    RecurrentHeads,
    RecurrentHeadsModule,
    heads_first,
    split_heads,
    time_first,
)
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan


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

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * E * E elements, for any capacity."""
        E = self.width_of_head(width)
        return RecurrentState.empty(batch, self.heads, 1, E, E, device=device)


class LightningAttentionModule(RecurrentHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LightningAttention, width: int, plan: Plan) -> None:
        super().__init__(attention, width)
        H, E = attention.heads, self.head_width
        self.heads, self.chunk, self.slopes = H, plan.chunk, tuple(attention.slopes)
        self.activation = built_activation(attention.activation, H * E)
        self.norm = attention.norm.build(H * E) if attention.norm else nn.Identity()
        self.gate = attention.gate.module(width, H, E) if attention.gate else None

    def extra_repr(self) -> str:
        return f"heads={self.heads}, head_width={self.head_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        mixed = self.norm(self.recur(self.query(x_BTD), self.key(x_BTD), self.value(x_BTD), context, state))
        mixed_BTHE = split_heads(mixed, self.heads)
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return self.output(mixed_BTHE.flatten(2))  # type: ignore[no-any-return]

    def recur(self, query: Tensor, key: Tensor, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The mixed heads side by side, (B, T, H * E), of queries, keys and values, each (B, T, H * E)."""
        with exactly(query):
            activated = (self.activation(y) for y in (query, key, value))
            q, k, v = (heads_first(split_heads(exact(y), self.heads), self.heads) for y in activated)
            log_decay = -listed(self.slopes, q.dtype, q.device)[:, None, None, None]
            log_decay = log_decay.expand(1, -1, 1, q.shape[-2], 1)
            if context.valid is not None:
                invalid = ~context.valid[:, None, None, :, None]
                k, log_decay = k.masked_fill(invalid, 0), log_decay.masked_fill(invalid, 0)
            past = None if state is None else state.sums.to(q.dtype)
            mixed, sums = linear_recurrence(q, k, v, log_decay, past, chunk=self.chunk, segments=context.segments)
            if state is not None:
                state.sums.copy_(sums)
            mixed_BTHE = time_first(mixed)
        return mixed_BTHE.flatten(2).to(query.dtype)
