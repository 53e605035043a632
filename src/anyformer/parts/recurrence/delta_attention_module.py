"""The module of delta attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections, unit_length
from anyformer.parts.recurrence.delta_attention import DeltaAttention
from anyformer.parts.recurrence.head_outputs_module import HeadOutputs
from anyformer.parts.recurrence.recurrence import delta_recurrence, exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first, zero_on_padding
from anyformer.plan import Plan

CONVOLVED = ("query", "key", "value")


class DeltaAttentionModule(ConvolvedProjections, HeadOutputs):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, delta: DeltaAttention, width: int, plan: Plan) -> None:
        super().__init__(delta.widths, width, delta.convolution)
        self.delta, self.chunk = delta, plan.chunk
        K = delta.states
        self.beta = nn.Linear(width, delta.steps * K, bias=False)
        self.decay = delta.decay.build(width, K, delta.key_width) if delta.decay else None
        self.add_outputs(delta.norm, delta.gate, width, K, delta.columns)
        self.scale = delta.scale_of_queries

    def extra_repr(self) -> str:
        d = self.delta
        return f"heads={d.heads}, value_heads={d.states}, widths={d.key_width}, {d.columns}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self.projected(name, x_BTD, self.delta.counts[name], context, state) for name in CONVOLVED)
        log_decay = None if self.decay is None else self.decay(x_BTD).flatten(2)
        beta = self.beta(x_BTD)
        mixed_BTKE = self.recur(query, key, value, beta, log_decay, context=context, state=state)
        return self.put_out(x_BTD, mixed_BTKE, context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Tensor,
        log_decay: Tensor | None = None,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads, (B, T, K, E), of projected and convolved inputs, each (B, T, features of all heads)."""
        d, segments = self.delta, context.segments
        beta_BTK = context.see("beta", d.beta_scale * exact(beta).sigmoid())
        log_decay_BTKM = None if log_decay is None else context.see("log_decay", split_heads(log_decay, d.states))
        # Padding writes nothing and decays nothing.
        (beta_BTK,) = zero_on_padding(context, beta_BTK)
        if log_decay_BTKM is not None:
            (log_decay_BTKM,) = zero_on_padding(context, log_decay_BTKM)
        if d.steps > 1:
            key, value, beta_BTK = (torch.unflatten(y, 2, (d.steps, -1)).flatten(1, 2) for y in (key, value, beta_BTK))
            query = self._spread(query, last=True)
            log_decay_BTKM = None if log_decay_BTKM is None else self._spread(log_decay_BTKM, last=False)
            segments = None if segments is None else segments.repeat_interleave(d.steps, 1)
        with exactly(query):
            q, k = (unit_length(split_heads(exact(y), d.heads), d.length_eps) for y in (query, key))
            mixed, sums = delta_recurrence(
                heads_first(q * self.scale, d.heads),
                heads_first(k, d.heads),
                heads_first(split_heads(exact(value), d.states), d.heads),
                heads_first(beta_BTK[..., None], d.heads),
                None if log_decay_BTKM is None else heads_first(log_decay_BTKM, d.heads),
                None if state is None else state.sums.to(q.dtype),
                chunk=self.chunk,
                segments=segments,
            )
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed)[:, d.steps - 1 :: d.steps].to(query.dtype))

    def _spread(self, x: Tensor, *, last: bool) -> Tensor:
        """x (B, T, ...) at the first or the last of the steps of each token, zeros at the others: (B, n * T, ...)."""
        rest = torch.zeros_like(x)[:, :, None].expand(-1, -1, self.delta.steps - 1, *x.shape[2:])
        parts = (rest, x[:, :, None]) if last else (x[:, :, None], rest)
        return torch.cat(parts, 2).flatten(1, 2)
