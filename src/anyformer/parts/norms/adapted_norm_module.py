"""The module of a norm with small networks of each language behind it."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.norms.adapted_norm import AdaptedNorm
from anyformer.parts.pointwise.activation_module import built_activation


class AdaptedNormModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, part: AdaptedNorm, width: int) -> None:
        super().__init__()
        self.norm, self.language = part.norm.build(width), part.language
        self.before = None if part.before is None else part.before.build(width)
        self.adapters = nn.ModuleDict({name: AdapterModule(part, width) for name in part.languages})

    def forward(self, x_D: Tensor) -> Tensor:
        n_D = self.norm(x_D) if self.before is None else self.before(x_D)
        y_D: Tensor = self.norm(n_D + self.adapters[self.language](n_D))
        return y_D


class AdapterModule(nn.Module):
    """(..., D) -> (..., D), through P features."""

    def __init__(self, part: AdaptedNorm, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, part.rank)
        self.activation = built_activation(part.activation, part.rank)
        self.up = nn.Linear(part.rank, width)

    def forward(self, x_D: Tensor) -> Tensor:
        y_D: Tensor = self.up(self.activation(self.down(x_D)))
        return y_D
