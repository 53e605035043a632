"""The WKV of RWKV-4: an average of values with weights exp(key) that decay, in a scan whose exponents never overflow.

    o_t = (sum_{s<t} exp(k_s - (t-1-s) rate) v_s + exp(bonus + k_t) v_t) / (the same sum of ones in place of v)

Shapes: k and v (B, T, W), rate and bonus (W,). A state is two sums, of values and of ones, times exp(exponent): (B, 3, W), the
exponent the largest that entered, so that every factor is at most 1. Chunks follow one another; within one, positions are
combined in pairs, pairs in fours and so on, as in the selective scan.
"""

from __future__ import annotations

import torch
from torch import Tensor

NOTHING = -1e30
"""The exponent of an empty sum: exp(NOTHING - anything) is 0, and sums of many of them stay finite."""


def wkv(
    key: Tensor,
    value: Tensor,
    rate: Tensor,
    bonus: Tensor,
    state: Tensor | None,
    *,
    chunk: int,
    starts: Tensor | None,
    padding: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, T, W) and the state after them; `starts`, `padding` (B, T): first tokens of documents, no tokens."""
    decay, entering = (-rate).expand_as(key), key
    if starts is not None:
        decay = decay.masked_fill(starts[..., None], NOTHING)
    if padding is not None:
        decay, entering = decay.masked_fill(padding[..., None], 0), entering.masked_fill(padding[..., None], NOTHING)
    # The exponent only keeps numbers in range, and cancels: it takes no gradient, and the sums take all of it.
    exponent = entering.detach()
    sums = torch.stack([value, torch.ones_like(value)], 2) * (entering - exponent).exp()[:, :, None]
    if state is None:
        state = torch.zeros_like(sums[:, 0, :1]).expand(-1, 3, -1)
    empty = state[:, 1] == 0
    last_p, last_x = state[:, 2].masked_fill(empty, NOTHING)[:, None], state[:, None, :2]
    before_p, before_x = [], []
    for d, p, x in zip(*(torch.split(each, chunk, 1) for each in (decay, exponent, sums)), strict=True):
        first_p, first_x = _join(last_p, last_x, d[:, :1], p[:, :1], x[:, :1])
        p, x = _scan(d, torch.cat([first_p, p[:, 1:]], 1), torch.cat([first_x, x[:, 1:]], 1))
        before_p += [last_p, p[:, :-1]]
        before_x += [last_x, x[:, :-1]]
        last_p, last_x = p[:, -1:], x[:, -1:]
    p, x = torch.cat(before_p, 1), torch.cat(before_x, 1)
    p = p if starts is None else p.masked_fill(starts[..., None], NOTHING)
    own = bonus + key
    largest = torch.maximum(p, own.detach())
    old, new = (p - largest).exp(), (own - largest).exp()
    mixed = (old * x[:, :, 0] + new * value) / (old * x[:, :, 1] + new)
    return mixed, torch.cat([last_x[:, 0], last_p], 1)


def _join(p: Tensor, x: Tensor, decay: Tensor, own_p: Tensor, own_x: Tensor) -> tuple[Tensor, Tensor]:
    """Earlier sums, decayed, and later ones: exponents (B, T, W) and sums (B, T, 2, W)."""
    faded = p + decay
    largest = torch.maximum(faded.detach(), own_p)
    return largest, (faded - largest).exp()[:, :, None] * x + (own_p - largest).exp()[:, :, None] * own_x


def _scan(decay: Tensor, p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The exponents and sums up to every position along dim 1."""
    length = x.shape[1]
    if length == 1:
        return p, x
    early, late, pairs = slice(0, length - length % 2, 2), slice(1, None, 2), length // 2
    joined = _join(p[:, early], x[:, early], decay[:, late], p[:, late], x[:, late])
    odd = _scan(decay[:, early] + decay[:, late], *joined)
    later = (length - 1) // 2
    even = _join(odd[0][:, :later], odd[1][:, :later], decay[:, 2::2], p[:, 2::2], x[:, 2::2])
    found = []
    for own, first, second in ((p, even[0], odd[0]), (x, even[1], odd[1])):
        evens = torch.cat([own[:, :1], first], 1)
        paired = torch.stack([evens[:, :pairs], second], 2).flatten(1, 2)
        found.append(torch.cat([paired, evens[:, pairs:]], 1))
    return found[0], found[1]
