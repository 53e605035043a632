"""The module of gated residuals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.gated_residual import GatedResidual


class GatedResidualModule(nn.Module):
    """N residual streams: `gate` is g, of which both shares are worked out in fp32."""

    def __init__(self, streams: GatedResidual, width: int) -> None:
        super().__init__()
        self.streams = streams
        self.gate = nn.Parameter(torch.empty(streams.count, width))

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), what is kept of the streams (B, T, N, D), the shares of the output (N, D)."""
        gate_ND = self.gate.float() / self.streams.temperature
        written_ND = gate_ND.sigmoid()
        # 1 - b^2 by the sigmoid of -g, which keeps its digits where b is near 1.
        kept_ND = ((-gate_ND).sigmoid() * (1 + written_ND)).clamp(min=self.streams.least).sqrt()
        return x_BTND.mean(2), x_BTND * kept_ND.to(x_BTND.dtype), written_ND.to(x_BTND.dtype)
