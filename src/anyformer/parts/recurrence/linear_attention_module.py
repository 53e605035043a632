"""The module of linear attention."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.describe import Digested
from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.linear_attention import LinearAttention
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import (
    RecurrentHeadsModule,
    by_head,
    heads_first,
    split_heads,
    time_first,
)
from anyformer.plan import Plan


class LinearAttentionModule(RecurrentHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, attention: LinearAttention, width: int, plan: Plan) -> None:
        super().__init__(attention, width)
        self.attention, self.chunk = attention, plan.chunk
        self.directions = attention.feature_map.directions(self.head_width)
        self.rotary = Digested.of(attention.rotary) if attention.rotary else None

    def extra_repr(self) -> str:
        a = self.attention
        return f"heads={a.heads}, kv_heads={a.groups}, head_width={self.head_width}, feature_map={a.feature_map.kind}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        mixed = by_head("mixed", self.recur(*self.projected(x_BTD, context), context, state), self.attention.heads, context)
        return put_out(self.output, split_heads(mixed, self.attention.heads), context)

    def recur(self, query: Tensor, key: Tensor, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The mixed heads side by side, (B, T, H * E), of queries, keys and values, (B, T, heads * E)."""
        a = self.attention
        with exactly(query):
            q, k, v = (split_heads(exact(y), y.shape[-1] // self.head_width) for y in (query, key, value))
            q, k = heads_first(self._mapped(q, context), a.groups), heads_first(self._mapped(k, context), a.groups)
            v = heads_first(v, a.groups)
            if context.valid is not None:
                k = k.masked_fill(~context.valid[:, None, None, :, None], 0)
            if a.eps is not None:
                # A column of ones adds up to the denominator.
                v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
            mixed = self._mixed(q, k, v, context, state)
            if a.eps is not None:
                mixed = mixed[..., :-1] / (mixed[..., -1:] + a.eps)
            mixed_BTHE = time_first(mixed)
        return mixed_BTHE.flatten(2).to(query.dtype)

    def _mapped(self, x_BTHE: Tensor, context: Context) -> Tensor:
        """phi(x), rotated if positions are: (B, T, H, M)."""
        return context.rotated(self.attention.feature_map.apply(x_BTHE, self.directions), self.rotary)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, context: Context, state: RecurrentState | None) -> Tensor:
        if not self.attention.causal:
            return q @ (k.mT @ v)
        past = None if state is None else state.sums.to(q.dtype)
        mixed, sums = linear_recurrence(q, k, v, None, past, chunk=self.chunk, segments=context.segments)
        hold(sums, state, context)
        return mixed
