"""The module of lightning attention."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.constant import listed
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.recurrence.lightning_attention import LightningAttention
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import (
    RecurrentHeadsModule,
    by_head,
    heads_first,
    split_heads,
    time_first,
)
from anyformer.plan import Plan


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
        mixed = by_head("mixed", self.recur(*self.projected(x_BTD, context), context, state), self.heads, context)
        mixed_BTHE = split_heads(self.norm(mixed), self.heads)
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)

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
            hold(sums, state, context)
            mixed_BTHE = time_first(mixed)
        return mixed_BTHE.flatten(2).to(query.dtype)
