"""Manifold-constrained hyper-connections: streams that each step mixes by a doubly stochastic matrix."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Contraction, Tally, Weight, matrix
from anyformer.parts.layers.merged_streams import MergedStreams
from anyformer.parts.sketch import Sketch


class ManifoldConnections(MergedStreams):
    """N residual streams of which a step leaves x_n = sum_k R_kn x_k + w_n f(h), h = sum_n m_n x_n, R doubly stochastic.

    Xie et al. 2025 (arXiv 2512.24880, mHC), as DeepSeek-V4 and GLM-5.3 have it. With v the N streams side by side (N * D),
    normalised without a gain, and (u, z, Q) = v W + b split:

        m = sigmoid(s_1 u) + eps     w = 2 sigmoid(s_2 z)     R = Sinkhorn(softmax(s_3 Q) + eps)

    where s scales the part of W and not b. Sinkhorn divides columns by their sums + eps, then rows and columns in turn until it
    has divided the columns `iterations` times, so no mix lets the streams grow. The paper's H_pre, H_post, H_res are m, w, R.
    All this is computed in fp32. A pass costs more time than plain hyper-connections: the matrix is small and the steps many.
    """

    kind: Literal["manifold_connections"] = "manifold_connections"
    iterations: Count = 20

    def sketch(self, width: int) -> Sketch:
        fact = f"{self.count} residual streams, mixed by doubly stochastic matrices of each token"
        return Sketch("Manifold hyper-connections", (fact,))

    def build(self, width: int, index: int) -> ManifoldConnectionsModule:
        return ManifoldConnectionsModule(self, width)

    def cost(self, width: int, rows: int, index: int) -> Tally:
        N = self.count
        mixed = Contraction(2 * rows * N * N * width)
        weights = {"strength": Weight((3,), "replicate", 0.01), "static": Weight((N * (N + 2),), "replicate", "zeros")}
        return matrix("dynamic", N * width, N * (N + 2), rows, role="replicate") + Tally(weights, {"mix": mixed})


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
