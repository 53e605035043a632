"""RWKV-7's channel mixing: a network with squared ReLU that reads the token before too."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.recurrence.channel_mix import ChannelMix
from anyformer.parts.recurrence.recurrence import recurrent
from anyformer.parts.recurrence.short_convolution import previous
from anyformer.parts.sketch import Cell, Sketch, chain, number
from anyformer.plan import Plan


class RWKV7ChannelMix(ChannelMix):
    """y = relu((x_t + mix * (x_{t-1} - x_t)) W_key)^2 W_value: Channel mixing (Peng et al. 2025, arXiv 2503.14456: RWKV-7).

    mix: (D,); W_key: (D, F), W_value: (F, D). Without the gate of RWKV-4's (`RWKVChannelMix`).
    """

    kind: Literal["rwkv7_channel_mix"] = "rwkv7_channel_mix"

    def sketch(self, width: int) -> Sketch:
        acted = Cell(activation_name("relu_squared", gated=False), "pointwise")
        inner = chain(Cell(f"key {number(self.width)}"), acted, Cell(f"value {number(width)}"))
        return Sketch("RWKV-7 channel mixing", (), chain(Cell("mix with the token before", "mix"), inner))

    def build(self, width: int, plan: Plan, name: str) -> RWKV7ChannelMixModule:
        return RWKV7ChannelMixModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = Tally({"key_mix": Weight((width,), "replicate", 0.5)})
        parts += matrix("key", width, self.width, shape.rows, role="column")
        parts += matrix("value", self.width, width, shape.rows, role="row", fill="residual")
        inner = {"key_activation": ACTIVATIONS["relu_squared"].cost(self.width, shape.rows)}
        state = shape.batch * width * plan.activation_bytes
        return parts + total(inner) + Tally(own_state=recurrent(state, shape))


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
        return self.value(F.relu(self.key(mixed_BTD)).square())  # type: ignore[no-any-return]
