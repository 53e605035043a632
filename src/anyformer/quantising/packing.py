"""Two numbers of 4 bits in a byte."""

from __future__ import annotations

import torch
from torch import Tensor


def packed(codes: Tensor) -> Tensor:
    """Whole numbers from 0 to 15 along the last dimension, (..., n), as bytes (..., ceil(n / 2)): the first in the low bits."""
    even = torch.nn.functional.pad(codes.to(torch.uint8), (0, codes.shape[-1] % 2))
    return even[..., ::2] | even[..., 1::2] << 4


def unpacked(bytes: Tensor, count: int) -> Tensor:
    """The first `count` numbers of the last dimension, uint8."""
    return torch.stack([bytes & 15, bytes >> 4], -1).flatten(-2)[..., :count]


def numbers_at(bytes: Tensor, places: Tensor) -> Tensor:
    """The numbers at these places of one line of them, whichever half of a byte each lies in."""
    return bytes[places >> 1] >> ((places & 1) << 2) & 15


def typed(name: str) -> torch.dtype:
    """The type of torch of this name."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype
