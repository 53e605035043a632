"""The modules of RWKV-4."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState, RecurrentState, hold
from anyformer.parts.recurrence.document_places import document_starts
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.rwkv import RWKV, SIDES, RWKVChannelMix
from anyformer.parts.recurrence.scan import running_largest, scan
from anyformer.parts.recurrence.short_convolution_module import previous

NOTHING = -1e30
"""The exponent of an empty sum: exp(NOTHING - anything) is 0, and sums of many of them stay finite."""


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
        receptance = context.see("receptance", self.receptance(_mixed(x_BTD, before_BTD, self.receptance_mix)))
        mixed_BTW = self.recur(context.see("key", key), context.see("value", value), context, state).to(x_BTD.dtype)
        return self.output(context.see("hidden", receptance.sigmoid() * context.see("mixed", mixed_BTW)))  # type: ignore[no-any-return]

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
            hold(sums, state, context)
            return mixed_BTW


def _mixed(x: Tensor, before: Tensor, mix: Tensor) -> Tensor:
    return x * mix + before * (1 - mix)


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
        up_BTF = context.see("up", self.key(_mixed(x_BTD, before_BTD, self.key_mix)))
        inner_BTF = context.see("hidden", F.relu(up_BTF).square())
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
