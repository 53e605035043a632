"""The module of manifold-constrained hyper-connections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.manifold import ManifoldConnections


class ManifoldConnectionsModule(nn.Module):
    """N residual streams: `dynamic` is W, `static` b and `strength` s."""

    def __init__(self, streams: ManifoldConnections, width: int) -> None:
        super().__init__()
        N = streams.count
        self.streams = streams
        self.dynamic = nn.Linear(N * width, N * (N + 2), bias=False)
        self.static = nn.Parameter(torch.empty(N * (N + 2)))
        self.strength = nn.Parameter(torch.empty(3))

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the mixed streams (B, T, N, D), the weights of the output (B, T, N, 1)."""
        part, dtype = self.streams, x_BTND.dtype
        N, eps = part.count, part.eps
        read, write, mix = torch.split(self.dynamic(part.vector(x_BTND)).float(), [N, N, N * N], -1)
        read_start, write_start, mix_start = torch.split(self.static.float(), [N, N, N * N])
        s_read, s_write, s_mix = self.strength.float()
        read_BTN = torch.sigmoid(s_read * read + read_start) + eps
        write_BTN = 2 * torch.sigmoid(s_write * write + write_start)
        start_BTNN = (s_mix * mix + mix_start).view(*x_BTND.shape[:2], N, N)
        mix_BTNN = doubly_stochastic(torch.softmax(start_BTNN, -1) + eps, part.iterations, eps).to(dtype)
        read_BTD = (read_BTN.to(dtype)[..., None] * x_BTND).sum(-2)
        return read_BTD, mix_BTNN.mT @ x_BTND, write_BTN.to(dtype)[..., None]


def doubly_stochastic(positive: Tensor, iterations: int, eps: float) -> Tensor:
    """(..., N, N) of positive numbers -> nearly the same with rows and columns that sum to 1 (Sinkhorn and Knopp 1967)."""
    mix = positive / (positive.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix
