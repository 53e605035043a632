"""The module of Gated DeltaNet-2."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.convolved_heads_module import ConvolvedHeadsModule
from anyformer.parts.recurrence.gated_delta2 import GatedDelta2
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import exact
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, zero_on_padding
from anyformer.plan import Plan


class GatedDelta2Module(ConvolvedHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: GatedDelta2, width: int, plan: Plan) -> None:
        super().__init__(part, width, plan)
        self.scale, self.erase_scale = part.scale_of_queries, part.erase_scale
        gates = (nn.Linear(width, part.heads * features, bias=False) for features in (part.key_width, part.columns))
        self.erase_gate, self.write_gate = gates
        self.decay = part.decay.build(width, part.heads, part.key_width)

    def controls(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return self.erase_gate(x_BTD), self.write_gate(x_BTD), self.decay(x_BTD)

    def over_time(
        self, q: Tensor, k: Tensor, v: Tensor, controls: tuple[Tensor, ...], past: Tensor | None, context: Context
    ) -> tuple[Tensor, Tensor]:
        erase, write, log_decay = controls
        erase_BTHM = context.see("erase", self.erase_scale * split_heads(exact(erase), self.heads).sigmoid())
        write_BTHE = context.see("write", split_heads(exact(write), self.heads).sigmoid())
        # Padding erases and writes nothing, and decays nothing.
        k, fade = zero_on_padding(context, k, context.see("log_decay", log_decay))
        # It reads what it erases from the state before its decay.
        erased, written = erase_BTHM * k * fade.exp(), write_BTHE * v
        q, k, written, erased, fade = (heads_first(y, self.heads) for y in (self.scale * q, k, written, erased, fade))
        return generalised_delta(q, k, written, erased, k, fade, past, chunk=self.chunk, segments=context.segments)
