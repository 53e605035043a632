"""The module of constant vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.layers.constant import Constant


class ConstantModule(nn.Module):
    """(B, T, D), of which only the shape matters, -> (B, T, D)."""

    def __init__(self, constant: Constant, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(width), requires_grad=constant.learned)

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        return self.vector.to(x_BTD.dtype).expand_as(x_BTD)
