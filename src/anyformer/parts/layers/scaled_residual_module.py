"""The module of scaled residuals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.scaled_residual import ScaledResidual


class ScaledResidualModule(nn.Module):
    """N residual streams and a factor of every feature of each."""

    def __init__(self, streams: ScaledResidual, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(streams.count, width))

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the streams times their factors (B, T, N, D), and 1 for the output."""
        return x_BTND.mean(2), x_BTND * self.gain.to(x_BTND.dtype), x_BTND.new_ones(())
