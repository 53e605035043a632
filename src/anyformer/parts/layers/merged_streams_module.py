"""The modules of streams weighed by all of a token's streams together."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.merged_streams import MergedStreams
from anyformer.parts.layers.streams_module import CopiesModule


class LearnedMerge(CopiesModule):
    """N copies before the layers, and behind them their sum by weights of the token."""

    def __init__(self, streams: MergedStreams, width: int) -> None:
        super().__init__(streams)
        self.leave = TokenWeights(streams, width)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        weights_BTN: Tensor = self.leave(x_BTND)
        return (weights_BTN.to(x_BTND.dtype)[..., None] * x_BTND).sum(-2)


class TokenWeights(nn.Module):
    """m = sigmoid(s v W + b) + eps of each token: (B, T, N, D) -> (B, T, N) in fp32."""

    def __init__(self, streams: MergedStreams, width: int) -> None:
        super().__init__()
        N = streams.count
        self.streams = streams
        self.dynamic = nn.Linear(N * width, N, bias=False)
        self.static = nn.Parameter(torch.empty(N))
        self.strength = nn.Parameter(torch.empty(1))

    def forward(self, x_BTND: Tensor) -> Tensor:
        made_BTN = self.dynamic(self.streams.vector(x_BTND)).float()
        return torch.sigmoid(self.strength.float() * made_BTN + self.static.float()) + self.streams.eps
