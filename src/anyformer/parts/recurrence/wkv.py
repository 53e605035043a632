"""The WKV of RWKV-4: an average of values with weights exp(key) that decay, in scans whose exponents never overflow.

    o_t = (sum_{s<t} exp(k_s - (t-1-s) rate) v_s + exp(bonus + k_t) v_t) / (the same sum of ones in place of v)

Shapes: k and v (B, T, W), rate and bonus (W,). A state is two sums, of values and of ones, times exp(exponent): (B, 3, W), the
exponent the largest that entered, so that every factor is at most 1. One scan finds the exponents of all positions, and one
adds up the sums.
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.recurrence.scan import running_largest, scan

NOTHING = -1e30
"""The exponent of an empty sum: exp(NOTHING - anything) is 0, and sums of many of them stay finite."""


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
    """The outputs (B, T, W) and the state after them; `starts`, `padding` (B, T): first tokens of documents, no tokens."""
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
