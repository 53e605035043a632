"""The module of a norm whose gains are a function of a fixed delay."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.norms.delay_norm import DelayNorm
from anyformer.parts.pointwise.activation_module import built_activation


class DelayNormModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, part: DelayNorm, width: int) -> None:
        super().__init__()
        self.part = part
        self.norm = part.norm.build(width)
        self.down = nn.Linear(width, part.rank, bias=False)
        self.activation = built_activation(part.activation, part.rank)
        self.up = nn.Linear(part.rank, width, bias=False)

    def forward(self, x_D: Tensor) -> Tensor:
        gain_1D = 1 + self.up(self.activation(self.down(self.waves(self.down.weight)[None])))
        y_D: Tensor = self.norm(x_D) * gain_1D[0].to(x_D.dtype)
        return y_D

    def waves(self, like: Tensor) -> Tensor:
        """s: (D,)."""
        half = like.shape[1] // 2
        turn = torch.arange(half, device=like.device, dtype=torch.float32).div(-half)
        angle = self.part.delay * self.part.theta**turn
        return torch.cat([angle.cos(), angle.sin()]).to(like.dtype)
