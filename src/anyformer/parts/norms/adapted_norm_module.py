"""The module of a norm with small networks of each language behind it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.norms.adapted_norm import AdaptedNorm
from anyformer.parts.pointwise.activation_module import built_activation


class AdaptedNormModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, part: AdaptedNorm, width: int) -> None:
        super().__init__()
        count, rank = len(part.languages), part.rank
        self.spoken = part.languages.index(part.language)
        self.norm = part.norm.build(width)
        self.before = None if part.before is None else part.before.build(width)
        self.down, self.down_bias = nn.Parameter(torch.empty(count, rank, width)), nn.Parameter(torch.empty(count, rank))
        self.activation = built_activation(part.activation, rank)
        self.up, self.up_bias = nn.Parameter(torch.empty(count, width, rank)), nn.Parameter(torch.empty(count, width))

    def forward(self, x_D: Tensor) -> Tensor:
        n_D = self.norm(x_D) if self.before is None else self.before(x_D)
        inner_P = self.activation(F.linear(n_D, self.down[self.spoken], self.down_bias[self.spoken]))
        y_D: Tensor = self.norm(n_D + F.linear(inner_P, self.up[self.spoken], self.up_bias[self.spoken]))
        return y_D
