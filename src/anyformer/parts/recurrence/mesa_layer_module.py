"""The module of the Mesa layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.recurrence.convolved_heads_module import ConvolvedHeadsModule
from anyformer.parts.recurrence.mesa import mesa_recurrence
from anyformer.parts.recurrence.mesa_layer import MesaLayer
from anyformer.parts.recurrence.recurrence import exact
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, zero_on_padding
from anyformer.plan import Plan


class MesaLayerModule(ConvolvedHeadsModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: MesaLayer, width: int, plan: Plan) -> None:
        super().__init__(part, width, plan)
        self.iterations, self.least = part.iterations, part.least
        self.beta, self.forget = nn.Linear(width, part.heads), nn.Linear(width, part.heads)
        self.ridge = nn.Parameter(torch.empty(part.heads * part.key_width))

    def extra_repr(self) -> str:
        return f"{self.shown}, iterations={self.iterations}"

    def controls(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        return self.beta(x_BTD), self.forget(x_BTD)

    def over_time(
        self, q: Tensor, k: Tensor, v: Tensor, controls: tuple[Tensor, ...], past: Tensor | None, context: Context
    ) -> tuple[Tensor, Tensor]:
        beta, forget = controls
        beta_BTHn = context.see("beta", exact(beta).sigmoid())[..., None]
        fade_BTHn = context.see("log_decay", F.logsigmoid(exact(forget))[..., None])
        # Padding counts for nothing and fades nothing.
        weight, fade = zero_on_padding(context, beta_BTHn, fade_BTHn)
        ridge = (F.softplus(exact(self.ridge)) + self.least).view(self.heads, 1, 1, -1).to(q.dtype)
        q, k, v, weight, fade = (heads_first(y, self.heads) for y in (q, k, v, weight, fade))
        return mesa_recurrence(
            q, k, v, weight, fade, ridge, past, iterations=self.iterations, chunk=self.chunk, segments=context.segments
        )
