"""The module of span-based dynamic convolution."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.span_convolution import PROJECTIONS, SpanConvolution
from anyformer.parts.call.context import Context
from anyformer.parts.call.gapless import gapless
from anyformer.parts.slot import HeadSizes


class SpanConvolutionModule(nn.Module):
    """(B, T, D) and queries (B, T, H, E) -> (B, T, H * U)."""

    def __init__(self, part: SpanConvolution, sizes: HeadSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.depthwise = nn.Parameter(torch.empty(sizes.width, part.kernel))
        projections = part.projections(sizes)
        self.key, self.kernel, self.value = (nn.Linear(*projections[name], bias=name in part.bias) for name in PROJECTIONS)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kernel={self.depthwise.shape[1]}"

    def forward(self, x_BTD: Tensor, q_BTHE: Tensor, context: Context) -> Tensor:
        segments, valid, q = context.segments, context.valid, q_BTHE.flatten(2)
        if valid is None:
            return self._convolved(x_BTD, q, segments)
        valid = valid.expand(x_BTD.shape[0], -1)
        order, back = context.once(("gapless", 0), lambda: gapless(valid, 0))
        segments = valid.long() - 1 if segments is None else torch.where(valid, segments, -1)
        y = self._convolved(_ordered(x_BTD, order), _ordered(q, order), segments.gather(1, order))
        return _ordered(y, back)

    def _convolved(self, x_BTD: Tensor, q: Tensor, segments: Tensor | None) -> Tensor:
        """(B, T, H * U) of rows without padding between tokens; positions read those of their own segment (B, T) alone."""
        n, depthwise = self.depthwise.shape[1], self.depthwise.to(x_BTD.dtype).unbind(1)
        c_BTD = _sum(near * weight for near, weight in zip(_around(x_BTD, n, segments), depthwise, strict=True))
        kernels_BTHn = torch.unflatten(self.kernel(self.key(c_BTD) * q), -1, (self.heads, n)).softmax(-1)
        v_BTHU = torch.unflatten(self.value(x_BTD), -1, (self.heads, -1))
        weights = kernels_BTHn[..., None, :].unbind(-1)
        return _sum(near * weight for near, weight in zip(_around(v_BTHU, n, segments), weights, strict=True)).flatten(2)


def _around(x: Tensor, n: int, segments: Tensor | None) -> Iterator[Tensor]:
    """The n positions around each, first to last: x_(t + j - (n - 1) / 2), (B, T, ...), 0 beyond the row or the segment."""
    length, beyond, inner = x.shape[1], (n // 2, n // 2), x.dim() - 2
    wide = F.pad(x, (0, 0) * inner + beyond)
    nears = (wide[:, j : j + length] for j in range(n))
    if segments is None:
        yield from nears
        return
    others = F.pad(segments, beyond, value=-2)
    for j, near in enumerate(nears):
        apart = torch.ne(others[:, j : j + length], segments)
        yield near.masked_fill(apart.view(*apart.shape, *[1] * inner), 0)


def _sum(terms: Iterator[Tensor]) -> Tensor:
    return sum(terms, next(terms))


def _ordered(x: Tensor, order_BT: Tensor) -> Tensor:
    """(B, T, features) with the positions in another order."""
    return x.gather(1, order_BT[..., None].expand_as(x))


def beside(y_BTHU: Tensor, convolved_BTZ: Tensor) -> Tensor:
    """Heads and behind them those of the convolution, whose features stand side by side."""
    return torch.cat([y_BTHU, convolved_BTZ.view(*y_BTHU.shape[:2], -1, y_BTHU.shape[3])], 2)
