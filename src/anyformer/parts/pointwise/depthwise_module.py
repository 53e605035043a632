"""The module of depthwise projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Depthwise(nn.Module):
    """y = x * weight + bias, (..., D) -> (..., D): a depthwise 1 x 1 convolution with the features last."""

    def __init__(self, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None

    def extra_repr(self) -> str:
        return f"width={len(self.weight)}"

    def forward(self, x_D: Tensor) -> Tensor:
        y_D = x_D * self.weight.to(x_D.dtype)
        return y_D if self.bias is None else y_D + self.bias.to(x_D.dtype)
