"""The module of relative logits whose states are bounded in length."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.clipped_relative_logits import ClippedRelativeLogits
from anyformer.parts.attention.length_clip_module import clipped
from anyformer.parts.attention.relative_logits_module import RelativeLogitsModule
from anyformer.parts.call.context import Context
from anyformer.parts.slot import HeadSizes


class ClippedRelativeLogitsModule(RelativeLogitsModule):
    def __init__(self, part: ClippedRelativeLogits, sizes: HeadSizes) -> None:
        super().__init__(part, sizes)
        self.part = part
        self.scale = nn.Parameter(torch.empty(sizes.heads, part.features))

    def mixed(self, x_BTD: Tensor, heads: int, context: Context) -> Tensor:
        r_BTHP = clipped(super().mixed(x_BTD, heads, context), self.part.bound, self.scale)
        return r_BTHP if self.part.temperature is None else self.part.temperature.scaled(r_BTHP, context)
