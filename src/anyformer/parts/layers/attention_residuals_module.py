"""The modules of attention residuals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.layers.attention_residuals import AttentionResiduals
from anyformer.parts.layers.streams_module import StreamEnds
from anyformer.parts.sublayer import Inputs


class DepthAttention(nn.Module):
    """The values that stand, (B, T, n, D) -> sums by weights of the token, (B, T, D), one for each of `queries`."""

    def __init__(self, streams: AttentionResiduals, width: int, queries: int = 1) -> None:
        super().__init__()
        self.sums_normed, self.scale = streams.values == "normed", streams.scale
        self.norm = streams.norm.build(width)
        self.query = nn.Linear(width, queries, bias=False)

    def mixed(self, x_BTnD: Tensor) -> tuple[Tensor, ...]:
        k_BTnD = self.norm(x_BTnD)
        share_BTnQ = torch.softmax(self.query(k_BTnD).float() * self.scale, 2).to(x_BTnD.dtype)
        sums: Tensor = share_BTnQ.mT @ (k_BTnD if self.sums_normed else x_BTnD)
        return sums.unbind(2)


class DepthStep(DepthAttention):
    """What step `index` reads of the values (B, T, N, D), these as they are, and where it writes, (B, T, N, 1)."""

    def __init__(self, streams: AttentionResiduals, width: int, index: int, inputs: Inputs = None) -> None:
        super().__init__(streams, width, 3 if inputs == "read" else 1)
        self.standing, self.place = streams.standing(index), 1 + index // streams.block

    def entered(self, x_BTND: Tensor, turn: int) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        """Also where queries, keys and values read sums of their own; `turn`: how often its layer was computed before."""
        return self.mixed(x_BTND[:, :, : self.standing]), x_BTND, written(x_BTND, self.place)


class FirstStep(nn.Module):
    """The first step reads the input, and has no weights."""

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x_BTND[:, :, 0], x_BTND, written(x_BTND, 1)


def written(x_BTND: Tensor, place: int) -> Tensor:
    """1 at one place of the values and 0 at all others, (B, T, N, 1)."""
    at = torch.arange(x_BTND.shape[2], device=x_BTND.device) == place
    return at.to(x_BTND.dtype)[:, None].expand(*x_BTND.shape[:3], 1)


class AttentionResidualsEnds(StreamEnds):
    """Before the layers the input and zeros, where nothing stands yet; behind them the sum of all by weights of the token."""

    def __init__(self, streams: AttentionResiduals, width: int) -> None:
        super().__init__()
        self.count = streams.count
        self.leave = DepthAttention(streams, width)

    def entering(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.pad(x_BTD[:, :, None], (0, 0, 0, self.count - 1))

    def leaving(self, x_BTND: Tensor) -> Tensor:
        return self.leave.mixed(x_BTND)[0]
