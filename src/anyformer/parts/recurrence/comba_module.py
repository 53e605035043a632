"""The module of Comba."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.comba import Comba
from anyformer.parts.recurrence.convolved_heads_module import ConvolvedHeadsModule
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import exact
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, zero_on_padding
from anyformer.plan import Plan


class CombaModule(ConvolvedHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: Comba, width: int, plan: Plan) -> None:
        super().__init__(part, width, plan)
        self.scale = part.scale_of_queries
        self.beta = nn.Linear(width, part.heads, bias=False)
        self.feedback, self.correction = (nn.Parameter(torch.empty(part.heads)) for _ in range(2))
        self.decay = part.decay.build(width, part.heads, part.key_width)

    def controls(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return self.beta(x_BTD), self.decay(x_BTD)

    def over_time(
        self, q: Tensor, k: Tensor, v: Tensor, controls: tuple[Tensor, ...], past: Tensor | None, context: Context
    ) -> tuple[Tensor, Tensor]:
        beta, log_decay = controls
        beta_BTHn = context.see("beta", exact(beta).sigmoid())[..., None]
        # Padding writes nothing, takes nothing out and decays nothing.
        beta_BTHn, fade = zero_on_padding(context, beta_BTHn, context.see("log_decay", log_decay))
        q = self.scale * (q - exact(self.correction)[:, None] * k)
        written = beta_BTHn * k
        taken = exact(self.feedback).sigmoid()[:, None] * written
        q, k, v, written, taken, fade = (heads_first(y, self.heads) for y in (q, k, v, written, taken, fade))
        return generalised_delta(q, written, v, k, taken, fade, past, chunk=self.chunk, segments=context.segments)
