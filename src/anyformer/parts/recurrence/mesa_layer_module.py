"""The module of the Mesa layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections, unit_length
from anyformer.parts.recurrence.mesa import mesa_recurrence
from anyformer.parts.recurrence.mesa_layer import MesaLayer
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first
from anyformer.plan import Plan


class MesaLayerModule(ConvolvedProjections):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: MesaLayer, width: int, plan: Plan) -> None:
        super().__init__(part.widths, width, part.convolution, part.convolved)
        self.part, self.chunk, H, E = part, plan.chunk, part.heads, part.columns
        self.beta, self.forget = nn.Linear(width, H), nn.Linear(width, H)
        self.ridge = nn.Parameter(torch.empty(H * part.key_width))
        self.norm = part.norm.build(E) if part.norm else nn.Identity()
        self.gate = part.gate.module(width, H, E) if part.gate else None
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        p = self.part
        return f"heads={p.heads}, widths={p.key_width}, {p.columns}, iterations={p.iterations}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self.projected(name, x_BTD, self.part.heads, context, state) for name in self.part.widths)
        mixed_BTHE = self.recur(query, key, value, self.beta(x_BTD), self.forget(x_BTD), context=context, state=state)
        mixed_BTHE = self.norm(mixed_BTHE)
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Tensor,
        forget: Tensor,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads (B, T, H, E) of what was projected, heads side by side."""
        part, H = self.part, self.part.heads
        with exactly(query):
            beta_BTH = context.see("beta", exact(beta).sigmoid())
            log_decay_BTHn = context.see("log_decay", F.logsigmoid(exact(forget))[..., None])
            if context.valid is not None:
                # Padding counts for nothing and fades nothing.
                beta_BTH = beta_BTH.masked_fill(~context.valid[..., None], 0)
                log_decay_BTHn = log_decay_BTHn.masked_fill(~context.valid[..., None, None], 0)
            q, k = (unit_length(split_heads(exact(y), H), part.length_eps) for y in (query, key))
            ridge = (F.softplus(exact(self.ridge)) + part.least).view(H, 1, 1, -1).to(q.dtype)
            past = None if state is None else state.sums.to(q.dtype)
            v, beta_BTHn = split_heads(exact(value), H), beta_BTH[..., None]
            q, k, v, weight, fade = (heads_first(y, H) for y in (q, k, v, beta_BTHn, log_decay_BTHn))
            mixed, sums = mesa_recurrence(
                q, k, v, weight, fade, ridge, past, iterations=part.iterations, chunk=self.chunk, segments=context.segments
            )
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))
