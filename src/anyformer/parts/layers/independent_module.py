"""The module of independent hyper-connections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.independent import IndependentConnections


class IndependentConnectionsModule(nn.Module):
    """N residual streams: `dynamic` is W, `static` b and `strength` s."""

    def __init__(self, streams: IndependentConnections, width: int) -> None:
        super().__init__()
        N = streams.count
        self.streams = streams
        self.dynamic = nn.Linear(N * width, 2 * N, bias=False)
        self.static = nn.Parameter(torch.empty(2 * N))
        self.strength = nn.Parameter(torch.empty(2))

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the streams as they are, the weights of the output (B, T, N, 1)."""
        part, dtype = self.streams, x_BTND.dtype
        read, write = self.dynamic(part.vector(x_BTND)).float().chunk(2, -1)
        read_start, write_start = self.static.float().chunk(2)
        s_read, s_write = self.strength.float()
        read_BTN = torch.sigmoid(s_read * read + read_start) + part.eps
        write_BTN = part.magnitude * torch.sigmoid(s_write * write + write_start) + part.eps
        read_BTD = (read_BTN.to(dtype)[..., None] * x_BTND).sum(-2)
        return read_BTD, x_BTND, write_BTN.to(dtype)[..., None]
