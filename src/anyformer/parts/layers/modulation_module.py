"""The module of modulations."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.layers.modulation import Modulation


class ModulationModule(nn.Module):
    """The condition (B, D) -> shift and scale, and the gate if there is one, (B, 1, D) each."""

    def __init__(self, modulation: Modulation, width: int) -> None:
        super().__init__()
        self.modulation = modulation
        self.projection = nn.Linear(width, modulation.parts * width)

    def forward(self, condition_BD: Tensor) -> tuple[Tensor, ...]:
        made: Tensor = self.projection(F.silu(condition_BD))
        return made[:, None].chunk(self.modulation.parts, -1)


def applied(x_BTD: Tensor, shift_B1D: Tensor, scale_B1D: Tensor) -> Tensor:
    """x * (1 + scale) + shift, in the type of x."""
    return x_BTD * (1 + scale_B1D).to(x_BTD.dtype) + shift_B1D.to(x_BTD.dtype)
