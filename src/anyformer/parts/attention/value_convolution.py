"""A depthwise convolution of the values beside attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.operations import Dimension, Shape, Tally, Weight, total
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.call.context import Context
from anyformer.parts.pointwise.filters import convolve
from anyformer.parts.slot import HeadSizes, Way


class ValueConvolution(Combine):
    """y'_t = y_t + sum over j < n of w_j v_{t + j - (n - 1) / 2}: a filter over the values around a token beside attention.

    y (B, H, T, U): the mixed values; v (B, K, T, U): the values of y's group; w (K, n): one filter for each head of values.
    Positions outside the row or the document, and padding, are zeros. Nyströmformer (Xiong et al. 2021, arXiv 2102.03902),
    n = 65; beside linear attention FLatten (Han et al. 2023, arXiv 2308.00442). It looks ahead, so the mask must too.
    """

    name: ClassVar[str] = "value_convolution"
    order: ClassVar[int] = -1
    rules_out: ClassVar[frozenset[Way]] = frozenset({"pairs of heads", "source", "chosen keys", "divided positions", "latent"})
    needs_own_keys: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True
    kernel: Annotated[int, Field(ge=3)] = 65
    """n, an odd number of positions around a token."""

    @model_validator(mode="after")
    def _centred(self) -> ValueConvolution:
        if self.kernel % 2 == 0:
            raise ValueError(f"a kernel around a token has an odd number of positions, got kernel = {self.kernel}")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return (f"values of the {self.kernel} positions around added",)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"value_convolution": ValueConvolutionModule(self, sizes.groups)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        """Weights only: a sum of n shifted products is no matrix product."""
        axes: Dimension = (("kv_heads", sizes.groups),)
        weight = Weight((sizes.groups, self.kernel), "column", "matrix", linear=False, axes=(axes, ()))
        return total({"value_convolution": Tally({"weight": weight})})

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        return call.built("value_convolution")(y_BHTU, call.values, call.context)  # type: ignore[no-any-return]


class ValueConvolutionModule(nn.Module):
    """The mixed values (B, H, T, U) and the tokens' own (B, T, K, U) -> (B, H, T, U)."""

    def __init__(self, part: ValueConvolution, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, part.kernel))

    def extra_repr(self) -> str:
        return f"kv_heads={self.weight.shape[0]}, kernel={self.weight.shape[1]}"

    def forward(self, y_BHTU: Tensor, v_BTKU: Tensor, context: Context) -> Tensor:
        B, T, K, U = v_BTKU.shape
        side, segments = self.weight.shape[1] // 2, context.segments
        if context.valid is not None:
            v_BTKU = v_BTKU * context.valid[..., None, None].to(v_BTKU.dtype)
        if segments is not None:
            segments = F.pad(segments, (side, side), value=-1)
        wide = F.pad(v_BTKU.reshape(B, T, K * U), (0, 0, side, side))
        near_BTKU = convolve(wide, self.weight.repeat_interleave(U, 0), segments, ahead=side).view(B, T, K, U)
        near_BHTU = near_BTKU.to(y_BHTU.dtype).transpose(1, 2).repeat_interleave(y_BHTU.shape[1] // K, 1)
        return y_BHTU + near_BHTU
