"""The module of Comba."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.comba import Comba
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections, unit_length
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first
from anyformer.plan import Plan


class CombaModule(ConvolvedProjections):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: Comba, width: int, plan: Plan) -> None:
        super().__init__(part.widths, width, part.convolution)
        self.part, self.chunk, self.scale = part, plan.chunk, part.scale_of_queries
        H, E = part.heads, part.columns
        self.beta = nn.Linear(width, H, bias=False)
        self.feedback, self.correction = (nn.Parameter(torch.empty(H)) for _ in range(2))
        self.decay = part.decay.build(width, H, part.key_width)
        self.norm = part.norm.build(E) if part.norm else nn.Identity()
        self.gate = part.gate.module(width, H, E) if part.gate else None
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        return f"heads={self.part.heads}, widths={self.part.key_width}, {self.part.columns}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self.projected(name, x_BTD, self.part.heads, context, state) for name in self.part.widths)
        log_decay, beta = self.decay(x_BTD).flatten(2), self.beta(x_BTD)
        mixed_BTHE = self.norm(self.recur(query, key, value, beta, log_decay, context=context, state=state))
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Tensor,
        log_decay: Tensor,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads, (B, T, H, E), of projected and convolved inputs, each (B, T, features of all heads)."""
        H = self.part.heads
        beta_BTH = context.see("beta", exact(beta).sigmoid())
        log_decay_BTHn = context.see("log_decay", split_heads(log_decay, H))
        if context.valid is not None:
            # Padding writes nothing, takes nothing out and decays nothing.
            beta_BTH = beta_BTH.masked_fill(~context.valid[..., None], 0)
            log_decay_BTHn = log_decay_BTHn.masked_fill(~context.valid[..., None, None], 0)
        with exactly(query):
            q, k = (unit_length(split_heads(exact(y), H), self.part.length_eps) for y in (query, key))
            q = self.scale * (q - exact(self.correction)[:, None] * k)
            written = beta_BTH[..., None] * k
            taken = exact(self.feedback).sigmoid()[:, None] * written
            past = None if state is None else state.sums.to(q.dtype)
            v = split_heads(exact(value), H)
            q, k, v, written, taken, decay = (heads_first(y, H) for y in (q, k, v, written, taken, log_decay_BTHn))
            mixed, sums = generalised_delta(q, written, v, k, taken, decay, past, chunk=self.chunk, segments=context.segments)
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))
