"""RWKV-7's channel mixing: a network with squared ReLU that reads the token before too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.recurrence.channel_mix import ChannelMix
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.sketch import Cell, Sketch, chain, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.recurrence.rwkv7_channel_mix_module import RWKV7ChannelMixModule


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
        from anyformer.parts.recurrence.rwkv7_channel_mix_module import RWKV7ChannelMixModule

        return RWKV7ChannelMixModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = Tally({"key_mix": Weight((width,), "replicate", 0.5)})
        parts += matrix("key", width, self.width, shape.rows, role="column")
        parts += matrix("value", self.width, width, shape.rows, role="row", fill="residual")
        inner = {"key_activation": ACTIVATIONS["relu_squared"].cost(self.width, shape.rows)}
        state = shape.batch * width * plan.activation_bytes
        return parts + total(inner) + Tally(own_state=recurrent(state, shape))
