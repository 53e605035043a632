"""What a norm to unit length computes."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_length(x_D: Tensor, eps: float) -> Tensor:
    """x / sqrt(sum(x^2) + eps) over the last dimension."""
    return x_D * torch.rsqrt(x_D.square().sum(-1, keepdim=True) + eps)
