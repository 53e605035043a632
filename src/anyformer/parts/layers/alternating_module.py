"""The modules of alternating updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from anyformer.parts.layers.alternating import AlternatingUpdates
from anyformer.parts.layers.streams_module import StreamEnds

LEAST = 1e-5
"""The least mean square by which a stream is divided at both ends of the layers."""


class AlternatingEnds(StreamEnds):
    """Matrices of all streams but the first, `enter` before the layers and `leave` behind them."""

    def __init__(self, part: AlternatingUpdates, width: int) -> None:
        super().__init__()
        self.enter = _matrices(part.count - 1, width)
        self.leave = _matrices(part.count - 1, width)

    def entering(self, x_BTD: Tensor) -> Tensor:
        return torch.stack([x_BTD, *_sized(self.enter, [x_BTD] * len(self.enter), x_BTD)], 2)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        first_BTD, *others = x_BTND.unbind(2)
        return torch.stack([first_BTD, *_sized(self.leave, others, first_BTD)]).mean(0)


def _matrices(count: int, width: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))


def _sized(matrices: nn.ModuleList, xs: Sequence[Tensor], like_BTD: Tensor) -> Iterator[Tensor]:
    """The product of each x with its matrix, at the root mean square of another vector."""
    size_BT1 = like_BTD.square().mean(-1, keepdim=True).sqrt()
    for linear, x_BTD in zip(matrices, xs, strict=True):
        y_BTD = linear(x_BTD)
        yield y_BTD * (size_BT1 / y_BTD.square().mean(-1, keepdim=True).clamp(min=LEAST).sqrt())


class AlternatingUpdatesModule(nn.Module):
    """The streams around what a layer computes of the first."""

    def __init__(self, part: AlternatingUpdates, width: int) -> None:
        super().__init__()
        N = part.count
        self.count, self.width = N, width
        self.norm = part.norm.build(width)
        self.router = nn.Linear(width, N, bias=False)
        self.prediction = nn.Linear(N, N * N, bias=False)
        self.correction = nn.Linear(N, N, bias=False)

    def routed(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, N), between -1 and 1."""
        return torch.tanh(self.router(self.norm(x_BTD) / self.width).float()).to(x_BTD.dtype)

    def predicted(self, x_BTND: Tensor) -> Tensor:
        """The streams as they are expected behind the layer, (B, T, N, D)."""
        N = self.count
        # A row of the coefficients belongs to the stream that they predict.
        mix_BTNN: Tensor = self.prediction(self.routed(x_BTND[:, :, 0])).unflatten(-1, (N, N))
        return x_BTND + mix_BTNN @ x_BTND

    def corrected(self, predicted_BTND: Tensor, h_BTD: Tensor) -> Tensor:
        """The streams behind the layer, which found h where stream 0 was predicted, (B, T, N, D)."""
        error_BTD = h_BTD - predicted_BTND[:, :, 0]
        share_BTN: Tensor = self.correction(self.routed(h_BTD)) + 1
        return predicted_BTND + share_BTN[..., None] * error_BTD[:, :, None]
