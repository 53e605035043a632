"""Inputs of causal filters over time: what stands before a call in a decode state, without the padding between tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.gapless import gapless
from anyformer.parts.call.recurrent_state import ConvolutionState


@dataclass(frozen=True)
class Filtered:
    """`wide` (B, before + T, W): the latest `before` inputs and those of a call, tokens without gaps; `segments`: the document
    of each, if there are several."""

    wide: Tensor
    segments: Tensor | None
    before: int
    order: Tensor | None
    back: Tensor | None

    @staticmethod
    def of(x_BTW: Tensor, before: int, context: Context, state: ConvolutionState | None = None) -> Filtered:
        """The inputs of a call; it updates the state."""
        past = x_BTW.new_zeros(x_BTW.shape[0], before, x_BTW.shape[2]) if state is None else state.recent.to(x_BTW.dtype)
        wide, segments, valid = torch.cat([past, x_BTW], 1), context.segments, context.valid
        order = back = None
        if segments is not None:
            segments = F.pad(segments, (before, 0), value=-1)
        if valid is not None:
            order, back = context.once(("gapless", before), lambda: gapless(valid.expand(x_BTW.shape[0], -1), before))
            wide = wide.gather(1, order[..., None].expand_as(wide))
            segments = None if segments is None else segments.gather(1, order)
        if state is not None:
            state.recent.copy_(wide[:, wide.shape[1] - before :])
        return Filtered(wide, segments, before, order, back)

    def along(self, y_BTW: Tensor) -> Tensor:
        """What belongs to the tokens of the call, (B, T, W), in the order of their places in `wide`."""
        if self.order is None:
            return y_BTW
        wide = F.pad(y_BTW, (0, 0, self.before, 0))
        return wide.gather(1, self.order[..., None].expand_as(wide))[:, self.before :]

    def returned(self, y_BTW: Tensor) -> Tensor:
        """Outputs, (B, T, W), in the order of the call."""
        return y_BTW if self.back is None else y_BTW.gather(1, self.back[..., None].expand_as(y_BTW))
