"""What rotary positions compute: angles, their cosines and sines, and the rotation of heads."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.constant import listed
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_axes import RotaryAxes


def angles(rotary: Rotary, positions: Tensor, head_width: int, last: Tensor | None = None) -> Tensor:
    """(B, T), or with `axes` those on each of n axes, (n, B, T) -> (B, T, R / 2) in fp32.

    `last`: the last position of the call, which scalings read, if not among these.
    """
    dims = rotary.rotated(head_width)
    index, period = torch.arange(0, dims, 2, device=positions.device, dtype=torch.float32), dims
    if rotary.axes is not None:
        index, period = _numbered(rotary.axes, dims // 2, index)
    frequencies = rotary.theta ** (-index / period)
    if rotary.scaling is not None:
        frequencies = rotary.scaling.frequencies(frequencies, rotary.theta, (positions.amax() if last is None else last) + 1)
    if rotary.axes is not None:
        return rotary.axes.chosen(positions.float(), dims // 2) * frequencies
    return positions.float()[..., None] * frequencies


def _numbered(axes: RotaryAxes, pairs: int, like: Tensor) -> tuple[Tensor, int]:
    """Twice the number of every pair's frequency, and twice how many there are."""
    numbers = [axes.frequency(pair, pairs) for pair in range(pairs)]
    return listed(tuple(2.0 * number for number, _ in numbers), like.dtype, like.device), 2 * numbers[0][1]


def table(
    rotary: Rotary, positions: Tensor, head_width: int, dtype: torch.dtype, last: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (B, T, 1, R) each, in the order of the features that `rotate` takes; arguments: see `angles`."""
    turns = angles(rotary, positions, head_width, last)
    spread = turns.repeat_interleave(2, -1) if rotary.pairing == "adjacent" else torch.cat([turns, turns], -1)
    kind = dtype if rotary.rotate_in == "input" else torch.float32
    factor = rotary.scaling.wave_factor if rotary.scaling else 1.0
    return (spread.cos() * factor)[..., None, :].to(kind), (spread.sin() * factor)[..., None, :].to(kind)


def rotate(rotary: Rotary, x_BTHE: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate R features of every head and leave the others."""
    cos, sin = table
    dims, width = cos.shape[-1], x_BTHE.shape[-1]
    start = 0 if rotary.place == "first" else width - dims
    x = x_BTHE[..., start : start + dims]
    rotated: Tensor = (x * cos + _quarter_turn(x, rotary.pairing) * sin).to(x_BTHE.dtype)
    if dims == width:
        return rotated
    return torch.cat([x_BTHE[..., :start], rotated, x_BTHE[..., start + dims :]], -1)


def _quarter_turn(x: Tensor, pairing: str) -> Tensor:
    """Each pair (a, b) -> (-b, a)."""
    if pairing == "adjacent":
        return torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)
