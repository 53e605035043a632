"""The module of Gated DeltaNet-2."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections, unit_length
from anyformer.parts.recurrence.gated_delta2 import GatedDelta2
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first
from anyformer.plan import Plan


class GatedDelta2Module(ConvolvedProjections):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: GatedDelta2, width: int, plan: Plan) -> None:
        super().__init__(part.widths, width, part.convolution)
        self.part, self.chunk, self.scale = part, plan.chunk, part.scale_of_queries
        H, E = part.heads, part.columns
        self.erase_gate, self.write_gate = (nn.Linear(width, H * features, bias=False) for features in (part.key_width, E))
        self.decay = part.decay.build(width, H, part.key_width)
        self.norm = part.norm.build(E) if part.norm else nn.Identity()
        self.gate = part.gate.module(width, H, E) if part.gate else None
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        return f"heads={self.part.heads}, widths={self.part.key_width}, {self.part.columns}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self.projected(name, x_BTD, self.part.heads, context, state) for name in self.part.widths)
        gates = (self.erase_gate(x_BTD), self.write_gate(x_BTD), self.decay(x_BTD))
        mixed_BTHE = self.norm(self.recur(query, key, value, *gates, context=context, state=state))
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        erase: Tensor,
        write: Tensor,
        log_decay: Tensor,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads, (B, T, H, E), of projected and convolved inputs, heads side by side; log-decay (B, T, H, M)."""
        part, H = self.part, self.part.heads
        with exactly(query):
            erase_BTHM = context.see("erase", part.erase_scale * split_heads(exact(erase), H).sigmoid())
            write_BTHE = context.see("write", split_heads(exact(write), H).sigmoid())
            log_decay = context.see("log_decay", log_decay)
            q, k = (unit_length(split_heads(exact(y), H), part.length_eps) for y in (query, key))
            if context.valid is not None:
                # Padding erases and writes nothing, and decays nothing.
                padding = ~context.valid[..., None, None]
                k, log_decay = k.masked_fill(padding, 0), log_decay.masked_fill(padding, 0)
            # It reads what it erases from the state before its decay.
            erased, written = erase_BTHM * k * log_decay.exp(), write_BTHE * split_heads(exact(value), H)
            q, k, written, erased, fade = (heads_first(y, H) for y in (self.scale * q, k, written, erased, log_decay))
            past = None if state is None else state.sums.to(q.dtype)
            mixed, sums = generalised_delta(q, k, written, erased, k, fade, past, chunk=self.chunk, segments=context.segments)
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))
