"""The module of RWKV-7's channel mixing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.recurrence.rwkv7_channel_mix import RWKV7ChannelMix
from anyformer.parts.recurrence.short_convolution_module import previous


class RWKV7ChannelMixModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mix: RWKV7ChannelMix, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, mix.width, bias=False)
        self.key_mix = nn.Parameter(torch.empty(width))
        self.value = nn.Linear(mix.width, width, bias=False)

    def forward(self, x_BTD: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        change = previous(x_BTD, context, state) - x_BTD
        mixed_BTD = torch.addcmul(x_BTD, change, self.key_mix.to(x_BTD.dtype))
        up_BTF = context.see("up", self.key(mixed_BTD))
        return self.value(context.see("hidden", F.relu(up_BTF).square()))  # type: ignore[no-any-return]
