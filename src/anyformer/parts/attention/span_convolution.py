"""Span-based dynamic convolution: heads beside those of attention, whose kernels follow from the tokens around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import AfterValidator
from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Limit, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import softmax
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.call.context import Context
from anyformer.parts.call.gapless import gapless
from anyformer.parts.sketch import Cell, Flow, fan
from anyformer.parts.slot import HeadSizes, Way
from anyformer.parts.sublayer import each_once

Projection = Literal["key", "kernel", "value"]
PROJECTIONS: tuple[Projection, ...] = ("key", "kernel", "value")


def _odd(kernel: int) -> int:
    if kernel % 2 == 0:
        raise ValueError(f"a convolution around each position has an odd kernel, got {kernel}")
    return kernel


class SpanConvolution(Combine):
    """y_t = sum over j < n of a_tj v_(t + j - (n - 1) / 2), a_t = softmax((q_t * k_t) W_kernel), n weights for each of H heads.

    q: (B, T, H, E), the queries of the attention beside it, before their rotation; k = c W_key: (B, T, H * E), c_t = sum over j
    of d_j x_(t + j - (n - 1) / 2), d: (D, n), a depthwise convolution; v = x W_value: (B, T, H, U). What is beyond the row or
    the document is 0. The heads of both stand side by side before the output projection: the mixed attention of ConvBERT
    (Jiang et al. 2020, arXiv 2008.02496, section 3.3), whose k is n.
    """

    name: ClassVar[str] = "convolution"
    order: ClassVar[int] = 2
    rules_out: ClassVar[frozenset[Way]] = frozenset(
        {"source", "two inputs", "chosen keys", "divided heads", "divided positions", "layout", "latent"}
    )
    kernel: Annotated[Count, AfterValidator(_odd)] = 9
    """n, positions that an output reads."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    @property
    def mixing(self) -> str:
        return "convolution"

    def drawn(self, flow: Flow) -> Flow:
        return fan(flow, Cell(f"convolution over {self.kernel}, kernels by Q", "mix"))

    @property
    def limits(self) -> tuple[Limit, ...]:
        return Limit.each("a convolution of spans reads later positions", "causal", "stepwise", "chunked", "cached")

    def projections(self, sizes: HeadSizes) -> dict[Projection, tuple[int, int]]:
        """Inputs and outputs of each projection."""
        keys, values, width = sizes.heads * sizes.head_width, sizes.heads * sizes.value_width, sizes.width
        return {"key": (width, keys), "kernel": (keys, sizes.heads * self.kernel), "value": (width, values)}

    def heads(self, mixed: tuple[int, int], sizes: HeadSizes) -> tuple[int, int]:
        return 2 * mixed[0], mixed[1]

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"convolution": SpanConvolutionModule(self, sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        """The sums of n shifted products are no matrix products."""
        parts = Tally({"depthwise": Weight((sizes.width, self.kernel), "replicate", "matrix", linear=False)})
        for name, (inputs, outputs) in self.projections(sizes).items():
            parts += matrix(name, inputs, outputs, shape.rows, role="replicate", bias=name in self.bias)
        weights = shape.rows * sizes.heads * self.kernel
        return total({"convolution": parts + Tally(own_work={"softmax": softmax(weights, weights)})})

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        beside = call.built("convolution")(call.stream, call.queries, call.context)
        return torch.cat([y_BTHU, beside.view(*y_BTHU.shape[:2], -1, y_BTHU.shape[3])], 2)


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
        valid = valid.expand(len(x_BTD), -1)
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
