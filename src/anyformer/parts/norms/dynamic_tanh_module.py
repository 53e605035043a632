"""The module of dynamic tanh."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.pointwise.depthwise_module import Depthwise


class DynamicTanhModule(Depthwise):
    """(..., D) -> (..., D)."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.alpha = torch.nn.Parameter(torch.empty(1))

    def forward(self, x_D: Tensor) -> Tensor:
        # In fp32 like the statistics of a norm: alpha x is rounded before a function that is steep around 0.
        bounded_D = torch.tanh(self.alpha.float() * x_D.float())
        return super().forward(bounded_D).to(x_D.dtype)
