"""The module of the norm of features with their gains."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.norms.gained_first import GainedFirst
from anyformer.parts.norms.layer_norm_module import normalise


class GainedFirstModule(nn.Module):
    """(..., D) -> (..., D), in fp32; what is normalised is rounded to the type of x before."""

    def __init__(self, norm: GainedFirst, width: int) -> None:
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x_D: Tensor) -> Tensor:
        gain_D = self.weight.float() + (self.norm.first == "one_plus_weight")
        u_D = (x_D.float() * gain_D).to(x_D.dtype)
        return normalise(u_D.float(), self.norm.eps, centre=False).to(x_D.dtype)
