"""The modules of several residual streams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.streams import HyperConnections, StepStreams
from anyformer.parts.norms.layer_norm_module import normalise


class StreamEnds(nn.Module):
    """What stands at both ends of a stack's layers: one stream becomes N, and N become one."""

    def entering(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, N, D)."""
        raise NotImplementedError

    def leaving(self, x_BTND: Tensor) -> Tensor:
        """(B, T, N, D) -> (B, T, D)."""
        raise NotImplementedError


class CopiesModule(StreamEnds):
    """N copies before the layers, merged behind them."""

    def __init__(self, streams: StepStreams) -> None:
        super().__init__()
        self.streams = streams

    def entering(self, x_BTD: Tensor) -> Tensor:
        return x_BTD[:, :, None].expand(-1, -1, self.streams.count, -1)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        return self.streams.merged(x_BTND)


class HyperConnectionsModule(nn.Module):
    """N residual streams. Stored weights are differences from a plain residual network, so that they start at zero."""

    def __init__(self, streams: HyperConnections, width: int, index: int) -> None:
        super().__init__()
        N = streams.count
        self.count, self.first = N, index % N
        self.read_weight = nn.Parameter(torch.empty(N))
        self.mix_weight = nn.Parameter(torch.empty(N, N))
        self.write_weight = nn.Parameter(torch.empty(N))
        self.dynamic = nn.Linear(width, N + 2, bias=False) if streams.dynamic else None
        self.strength = nn.Parameter(torch.empty(3)) if streams.dynamic else None

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the mixed streams (B, T, N, D), the weights of the output (B, T, N, 1)."""
        N, dtype = self.count, x_BTND.dtype
        start = torch.zeros(N, device=x_BTND.device)
        start[self.first] = 1
        read = (self.read_weight + start).to(dtype)
        mix = (self.mix_weight + torch.eye(N, device=x_BTND.device)).to(dtype)
        write = (self.write_weight + 1).to(dtype)
        if self.dynamic is not None and self.strength is not None:
            shift = torch.tanh(self.dynamic(normalise(x_BTND.float(), 1e-6, centre=False).to(dtype)))
            s_read, s_mix, s_write = self.strength.to(dtype)
            read, write = read + s_read * shift[..., 0], write + s_write * shift[..., 1]
            mix = mix + s_mix * shift[..., 2:]
        read_BTD = (read[..., None] * x_BTND).sum(-2)
        mixed_BTND = (mix.mT[..., None] * x_BTND[..., None, :, :]).sum(-2)
        return read_BTD, mixed_BTND, write[..., None].expand(*x_BTND.shape[:3], 1)
