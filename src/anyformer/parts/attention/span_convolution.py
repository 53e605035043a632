"""Span-based dynamic convolution: heads beside those of attention, whose kernels follow from the tokens around."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator

from anyformer.describe import Count
from anyformer.operations import Limit, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import softmax
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.sketch import Cell, Flow, fan
from anyformer.parts.slot import HeadSizes, Way
from anyformer.parts.sublayer import each_once

if TYPE_CHECKING:
    from torch import Tensor


Projection = Literal["key", "kernel", "value"]
PROJECTIONS: tuple[Projection, ...] = ("key", "kernel", "value")


def _odd(kernel: int) -> int:
    if kernel % 2 == 0:
        raise ValueError(f"a convolution around a position has an odd kernel, got {kernel}")
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
        {"source", "two inputs", "chosen keys", "divided heads", "divided positions", "outside", "layout", "latent"}
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
        from anyformer.parts.attention.span_convolution_module import SpanConvolutionModule

        return {"convolution": SpanConvolutionModule(self, sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        """The sums of n shifted products are no matrix products."""
        parts = Tally({"depthwise": Weight((sizes.width, self.kernel), "replicate", "matrix", linear=False)})
        for name, (inputs, outputs) in self.projections(sizes).items():
            parts += matrix(name, inputs, outputs, shape.rows, role="replicate", bias=name in self.bias)
        weights = shape.rows * sizes.heads * self.kernel
        return total({"convolution": parts + Tally(own_work={"softmax": softmax(weights, weights)})})

    def rows(self, y_BTHU: Tensor, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.span_convolution_module import beside

        return beside(y_BTHU, call.built("convolution")(call.stream, call.queries, call.context))
