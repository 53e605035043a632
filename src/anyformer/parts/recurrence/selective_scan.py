"""The selective scan: a state per channel whose every entry decays by itself, so that no matrix product carries it on.

    h_t = exp(-step_t rate) h_{t-1} + step_t v_t k_t^T,    o_t = h_t q_t

Shapes: value and step (B, T, W), rate (W, M), key and query (B, T, M), state (B, W, M). Chunks follow one another; within one,
positions are combined in pairs, pairs in fours and so on (Blelloch 1990): twice the work of the loop, in 2 log T steps. Decays
are multiplied and never divided, so that a strong one loses no digits.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.operations import Contraction, Tally


def selective_scan(
    value: Tensor,
    step: Tensor,
    rate: Tensor,
    key: Tensor,
    query: Tensor,
    state: Tensor | None,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, T, W) and the state after them. Documents (`segments`, numbered in order) start from an empty state."""
    starts = None if segments is None else F.pad(segments[:, 1:] != segments[:, :-1], (1, 0))
    mixed, count = [], -(-value.shape[1] // chunk)
    pieces = (torch.split(x, chunk, 1) for x in (value, step, key, query))
    opening = [None] * count if starts is None else torch.split(starts, chunk, 1)
    for v, dt, k, q, opens in zip(*pieces, opening, strict=True):
        decay = (-dt[..., None] * rate).exp()
        decay = decay if opens is None else decay.masked_fill(opens[..., None, None], 0)
        write = (dt * v)[..., None] * k[:, :, None]
        if state is not None:
            write = torch.cat([write[:, :1] + decay[:, :1] * state[:, None], write[:, 1:]], 1)
        states = scan(decay, write)
        state = states[:, -1]
        mixed.append((states @ q[..., None]).squeeze(-1))
    assert state is not None
    return torch.cat(mixed, 1), state


def channel_scan(decay: Tensor, write: Tensor, state: Tensor | None, *, chunk: int) -> Tensor:
    """h_t = decay_t h_{t-1} + write_t of channels with one number each: all states, (B, T, W), after `state` (B, W)."""
    states = []
    for a, w in zip(torch.split(decay, chunk, 1), torch.split(write, chunk, 1), strict=True):
        entering = w if state is None else torch.cat([w[:, :1] + a[:, :1] * state[:, None], w[:, 1:]], 1)
        states.append(scan(a, entering))
        state = states[-1][:, -1]
    return torch.cat(states, 1)


def scan(decay: Tensor, write: Tensor) -> Tensor:
    """h_t = decay_t h_{t-1} + write_t along dim 1, from h = 0."""
    length = write.shape[1]
    if length == 1:
        return write
    early, late = slice(0, length - length % 2, 2), slice(1, None, 2)
    odd = scan(decay[:, early] * decay[:, late], write[:, late] + decay[:, late] * write[:, early])
    even = torch.cat([write[:, :1], write[:, 2::2] + decay[:, 2::2] * odd[:, : (length - 1) // 2]], 1)
    paired = torch.stack([even[:, : length // 2], odd], 2).flatten(1, 2)
    return torch.cat([paired, even[:, length // 2 :]], 1) if length % 2 else paired


def scan_flops(batch: int, channels: int, width: int, length: int) -> Tally:
    """FLOPs of `selective_scan`: the queries read states; all else in it is element-wise."""
    return Tally(own_work={"read": Contraction(2 * batch * length * channels * width)})
