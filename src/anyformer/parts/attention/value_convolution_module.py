"""The module of a depthwise convolution of the values beside attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.value_convolution import ValueConvolution
from anyformer.parts.call.context import Context
from anyformer.parts.pointwise.filters import convolve


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
