"""The module of grouped projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GroupedLinear(nn.Module):
    """x W^T + b, W block-diagonal: (..., I) -> (..., O); weight: (O, I / n), the rows of the n blocks one after the other."""

    def __init__(self, inputs: int, outputs: int, groups: int, *, bias: bool = True) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(outputs, inputs // groups))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def extra_repr(self) -> str:
        return f"inputs={self.weight.shape[1] * self.groups}, outputs={len(self.weight)}, groups={self.groups}"

    def forward(self, x_I: Tensor) -> Tensor:
        x_nZi = x_I.reshape(-1, self.groups, self.weight.shape[1]).transpose(0, 1)
        y_nZo = x_nZi @ self.weight.view(self.groups, -1, self.weight.shape[1]).mT
        y_O = y_nZo.transpose(0, 1).reshape(*x_I.shape[:-1], len(self.weight))
        return y_O if self.bias is None else y_O + self.bias


def projection(inputs: int, outputs: int, *, bias: bool, groups: int) -> nn.Module:
    """The linear map of one projection."""
    return nn.Linear(inputs, outputs, bias) if groups == 1 else GroupedLinear(inputs, outputs, groups, bias=bias)
