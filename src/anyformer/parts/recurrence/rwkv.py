"""RWKV-4: time mixing, an average of decaying weights in place of attention, and channel mixing, its gated network."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.recurrence.channel_mix import ChannelMix
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.rwkv_module import RWKVChannelMixModule, RWKVModule


SIDES = ("key", "value", "receptance")


def _mixes(names: tuple[str, ...], width: int) -> Tally:
    return Tally({f"{name}_mix": Weight((width,), "replicate", 0.5) for name in names})


class RWKV(Sublayer):
    """y = (sigmoid(r_t) * wkv_t) W_output: Time mixing (Peng et al. 2023, arXiv 2305.13048, section 3: RWKV-4).

    r, k, v: (B, T, W), each (mix * x_t + (1 - mix) * x_{t-1}) W with a mix (D,) of its own; wkv_t: the average of v_s, s <= t,
    with weights exp(k_s - (t-1-s) exp(decay)), and exp(k_t + bonus) for the token itself; decay and bonus: (W,). The state
    is two sums and their exponent, (3, W) in fp32, and x_{t-1}. The paper's w is exp(decay), its u is bonus. The average is
    element-wise. (Decays start so that a step forgets 0.1 to 10 %, without the paper's order by channel and layer.) The
    paper expects it to recall details of long texts less well than attention (its limitations).
    """

    kind: Literal["rwkv"] = "rwkv"
    channels: Count
    """Channels (W), each with an average of its own; D in the paper."""

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.channels,)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.channels % ways else self.but(channels=self.channels // ways)

    def sketch(self, width: int) -> Sketch:
        W = number(self.channels)
        read = fan(*(Cell(f"{name} {W}") for name in ("key", "value")))
        mixed = chain(read, Cell(f"state 2 × {W}, decay per channel", "memory"))
        gate = chain(Cell(f"receptance {W}"), Cell("sigmoid", "pointwise"))
        inner = chain(Cell("mix with the token before", "mix"), fan(mixed, gate, join="×"), Cell(f"output {number(width)}"))
        return Sketch("RWKV time mixing", (), inner)

    @property
    def traits(self) -> Traits:
        return Traits("RWKV")

    def build(self, width: int, plan: Plan, name: str) -> RWKVModule:
        from anyformer.parts.recurrence.rwkv_module import RWKVModule

        return RWKVModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, W = shape.batch, shape.rows, self.channels
        parts = _mixes(SIDES, width)
        for name in SIDES:
            parts += matrix(name, width, W, rows, role="column")
        parts += matrix("output", W, width, rows, role="row", fill="residual")
        parts += Tally({"decay": Weight((W,), "column", "time_step"), "bonus": Weight((W,), "column", "zeros")})
        parts += total({"receptance_activation": ACTIVATIONS["sigmoid"].cost(W, rows, gated=True)})
        state = 3 * B * W * SUM_BYTES + B * width * plan.activation_bytes
        return parts + Tally(own_state=recurrent(state, shape))

    def watchable(self, width: int) -> Watchables:
        channels = value("BTW", "keys", W=self.channels)
        return {
            "receptance": replace(channels, about="receptance, before its sigmoid"),
            "key": channels,
            "value": replace(channels, about="values"),
            **state_seen("BnW", n=3, W=self.channels),
            "mixed": replace(channels, about="averages of values"),
            "hidden": replace(channels, about="what the output projection reads"),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * 3 * W sums and the latest input, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState
        from anyformer.parts.recurrence.short_convolution_module import latest_input

        return RecurrentState.empty(
            batch, 3, self.channels, device=device, convolutions={"x": latest_input(width, batch, dtype, device)}
        )


class RWKVChannelMix(ChannelMix):
    """y = sigmoid(r_t) * (relu(k_t)^2 W_value): Channel mixing (Peng et al. 2023, arXiv 2305.13048, section 3: RWKV-4).

    k: (B, T, F) and r: (B, T, D), each (mix * x_t + (1 - mix) * x_{t-1}) W with a mix (D,) of its own; W_value: (F, D).
    """

    kind: Literal["rwkv_channel_mix"] = "rwkv_channel_mix"

    def sketch(self, width: int) -> Sketch:
        acted = Cell(activation_name("relu_squared", gated=False), "pointwise")
        inner = chain(Cell(f"key {number(self.width)}"), acted, Cell(f"value {number(width)}"))
        gate = chain(Cell(f"receptance {number(width)}"), Cell("sigmoid", "pointwise"))
        return Sketch("RWKV channel mixing", (), chain(Cell("mix with the token before", "mix"), fan(inner, gate, join="×")))

    def build(self, width: int, plan: Plan, name: str) -> RWKVChannelMixModule:
        from anyformer.parts.recurrence.rwkv_module import RWKVChannelMixModule

        return RWKVChannelMixModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.rows
        parts = _mixes(("key", "receptance"), width)
        parts += matrix("key", width, self.width, rows, role="column")
        parts += matrix("receptance", width, width, rows, role="replicate")
        parts += matrix("value", self.width, width, rows, role="row", fill="residual")
        inner = {
            "key_activation": ACTIVATIONS["relu_squared"].cost(self.width, rows),
            "receptance_activation": ACTIVATIONS["sigmoid"].cost(width, rows, gated=True),
        }
        state = shape.batch * width * plan.activation_bytes
        return parts + total(inner) + Tally(own_state=recurrent(state, shape))
