"""The modules of hyper-connections of low rank."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.layers.low_rank_connections import LowRankConnections
from anyformer.parts.layers.streams_module import CopiesModule
from anyformer.parts.norms.layer_norm_module import normalise


class LowRankGates(nn.Module):
    """N residual streams (B, T, N, D) -> what is read of them, (B, T, D), and all of them normalised side by side."""

    def __init__(self, streams: LowRankConnections, width: int) -> None:
        super().__init__()
        self.streams = streams
        side_by_side = streams.count * width
        self.gain = nn.Parameter(torch.empty(side_by_side))
        self.down = nn.Linear(side_by_side, streams.rank, bias=False)
        self.up = nn.Linear(streams.rank, side_by_side, bias=False)

    def read(self, x_BTND: Tensor) -> tuple[Tensor, Tensor]:
        """h (B, T, D) and v (B, T, N * D)."""
        N = self.streams.count
        normed = normalise(x_BTND.float(), self.streams.eps, centre=False).flatten(2)
        v = (normed * (1 + self.gain.float())).to(x_BTND.dtype)
        gates = torch.sigmoid(self.up(F.silu(self.down(v) / N)))
        return torch.unflatten(gates * v, -1, (N, -1)).mean(-2), v


class LowRankConnectionsModule(LowRankGates):
    """The streams of a step."""

    def __init__(self, streams: LowRankConnections, width: int) -> None:
        super().__init__(streams, width)
        self.write = nn.Linear(streams.count * width, streams.count, bias=False)

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the streams as they are, the weights of the output (B, T, N, 1)."""
        h_BTD, v = self.read(x_BTND)
        return h_BTD, x_BTND, 2 * torch.sigmoid(self.write(v) / self.streams.count)[..., None]


class LowRankEnds(CopiesModule):
    """N copies before the layers, and behind them what gates of their own read."""

    def __init__(self, streams: LowRankConnections, width: int) -> None:
        super().__init__(streams)
        self.leave = LowRankGates(streams, width)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        return self.leave.read(x_BTND)[0]
