"""RWKV-4: time mixing, an average of decaying weights in place of attention, and channel mixing, its gated network."""

from __future__ import annotations

from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, ConvolutionState, RecurrentState
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.recurrence.channel_mix import ChannelMix
from anyformer.parts.recurrence.document_places import document_starts
from anyformer.parts.recurrence.recurrence import exact, exactly, recurrent
from anyformer.parts.recurrence.scan import running_largest, scan
from anyformer.parts.recurrence.short_convolution import latest_input, previous
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

SIDES = ("key", "value", "receptance")
NOTHING = -1e30
"""The exponent of an empty sum: exp(NOTHING - anything) is 0, and sums of many of them stay finite."""


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

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * 3 * W sums and the latest input, for any capacity."""
        return RecurrentState.empty(
            batch, 3, self.channels, device=device, convolutions={"x": latest_input(width, batch, dtype, device)}
        )


class RWKVModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, rwkv: RWKV, width: int) -> None:
        super().__init__()
        W = rwkv.channels
        self.key, self.value, self.receptance = (nn.Linear(width, W, bias=False) for _ in SIDES)
        self.key_mix, self.value_mix, self.receptance_mix = (nn.Parameter(torch.empty(width)) for _ in SIDES)
        self.decay, self.bonus = nn.Parameter(torch.empty(W)), nn.Parameter(torch.empty(W))
        self.output = nn.Linear(W, width, bias=False)

    def extra_repr(self) -> str:
        return f"channels={len(self.decay)}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        before_BTD = previous(x_BTD, context, None if state is None else state.convolutions["x"])
        key, value = self.key(_mixed(x_BTD, before_BTD, self.key_mix)), self.value(_mixed(x_BTD, before_BTD, self.value_mix))
        opened = self.receptance(_mixed(x_BTD, before_BTD, self.receptance_mix)).sigmoid()
        return self.output(opened * self.recur(key, value, context, state).to(x_BTD.dtype))  # type: ignore[no-any-return]

    def recur(self, key: Tensor, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The averages in fp32 at least, (B, T, W)."""
        segments, valid = context.segments, context.valid
        with exactly(key):
            mixed_BTW, sums = wkv(
                exact(key),
                exact(value),
                exact(self.decay).exp(),
                exact(self.bonus),
                None if state is None else state.sums.to(exact(key).dtype),
                starts=document_starts(segments),
                padding=None if valid is None else ~valid,
            )
            if state is not None:
                state.sums.copy_(sums)
            return mixed_BTW


def _mixed(x: Tensor, before: Tensor, mix: Tensor) -> Tensor:
    return x * mix + before * (1 - mix)


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


class RWKVChannelMixModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mix: RWKVChannelMix, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, mix.width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)
        self.key_mix, self.receptance_mix = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width))
        self.value = nn.Linear(mix.width, width, bias=False)

    def forward(self, x_BTD: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        before_BTD = previous(x_BTD, context, state)
        inner_BTF = F.relu(self.key(_mixed(x_BTD, before_BTD, self.key_mix))).square()
        opened_BTD = self.receptance(_mixed(x_BTD, before_BTD, self.receptance_mix)).sigmoid()
        return opened_BTD * self.value(inner_BTF)  # type: ignore[no-any-return]


def wkv(
    key: Tensor,
    value: Tensor,
    rate: Tensor,
    bonus: Tensor,
    state: Tensor | None,
    *,
    starts: Tensor | None,
    padding: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """An average of values with weights exp(key) that decay, in scans whose exponents never overflow.

        o_t = (sum_{s<t} exp(k_s - (t-1-s) rate) v_s + exp(bonus + k_t) v_t) / (the same sum of ones in place of v)

    The outputs (B, T, W) and the state after them, from k and v (B, T, W), rate and bonus (W,); `starts`, `padding` (B, T):
    first tokens of documents, no tokens. A state is two sums, of values and of ones, times exp(exponent): (B, 3, W), the
    exponent the largest that entered, so that every factor is at most 1. One scan finds the exponents of all positions, and one
    adds up the sums.
    """
    decay, entering = (-rate).expand_as(key), key
    if starts is not None:
        decay = decay.masked_fill(starts[..., None], NOTHING)
    if padding is not None:
        decay, entering = decay.masked_fill(padding[..., None], 0), entering.masked_fill(padding[..., None], NOTHING)
    before = torch.zeros_like(key[:, :1]).expand(-1, 3, -1) if state is None else state
    sums, exponent = before[:, :2], before[:, 2:].masked_fill(before[:, 1:2] == 0, NOTHING)
    # Exponents only keep numbers in range, and cancel: they take no gradient, and the sums take all of it.
    first = torch.maximum(exponent + decay[:, :1], entering[:, :1])
    exponents = running_largest(decay[:, 1:], torch.cat([first, entering[:, 1:]], 1))
    earlier = torch.cat([exponent.detach(), exponents[:, :-1]], 1)
    fade, share = (earlier + decay - exponents).exp(), (entering - exponents).exp()
    writes = torch.stack([share * value, share], 2)
    writes = torch.cat([writes[:, :1] + (fade[:, :1] * sums)[:, None], writes[:, 1:]], 1)
    states = scan(fade[:, 1:, None], writes)
    read, counts = torch.cat([sums[:, None], states[:, :-1]], 1).unbind(2)
    earlier = earlier if starts is None else earlier.masked_fill(starts[..., None], NOTHING)
    own = bonus + key
    largest = torch.maximum(earlier, own.detach())
    old, new = (earlier - largest).exp(), (own - largest).exp()
    mixed = (old * read + new * value) / (old * counts + new)
    return mixed, torch.cat([states[:, -1], exponents[:, -1:]], 1)
