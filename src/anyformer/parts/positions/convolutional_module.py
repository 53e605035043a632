"""The module of positions by convolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.positions.absolute_module import PositionModule
from anyformer.parts.positions.convolutional import ConvolutionalPosition


class ConvolutionalPositionModule(PositionModule):
    """The stream (B, T, D) -> (B, T, D)."""

    def __init__(self, position: ConvolutionalPosition, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PositionLayer(position, width) for _ in range(position.layers))

    def forward(self, positions_BT: Tensor, x_BTD: Tensor) -> Tensor:
        beyond = (positions_BT < 0)[..., None]
        for layer in self.layers:
            x_BTD = layer(x_BTD.masked_fill(beyond, 0))
        return x_BTD


class PositionLayer(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, position: ConvolutionalPosition, width: int) -> None:
        super().__init__()
        self.kernel, self.groups = position.kernel, position.groups
        shape, normed = (width, width // position.groups, position.kernel), position.weights == "normed"
        self.weight = None if normed else nn.Parameter(torch.empty(shape))
        self.direction = nn.Parameter(torch.empty(shape)) if normed else None
        self.scale = nn.Parameter(torch.empty(position.kernel)) if normed else None
        self.bias = nn.Parameter(torch.empty(width))
        self.norm = position.norm.build(width) if position.norm else nn.Identity()
        self.activation = built_activation(position.activation, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        weight = self.weight if self.direction is None or self.scale is None else taps(self.direction, self.scale)
        assert weight is not None, "plain or normed"
        before = self.kernel // 2
        wide = F.pad(x_BTD.mT, (before, self.kernel - 1 - before))
        y_BDT = F.conv1d(wide, weight.to(x_BTD.dtype), self.bias.to(x_BTD.dtype), groups=self.groups)
        return self.activation(self.norm(y_BDT.mT.contiguous()))  # type: ignore[no-any-return]


def taps(direction: Tensor, scale: Tensor) -> Tensor:
    """W_j = g_j V_j / |V_j| of n taps, (D, D / groups, n)."""
    lengths: Tensor = torch.linalg.vector_norm(direction, dim=(0, 1))
    return direction * (scale / lengths)
