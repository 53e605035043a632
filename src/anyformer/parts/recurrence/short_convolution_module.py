"""The module of short causal convolutions over time, each feature by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.convolving import Filtered
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.pointwise.filters import convolve
from anyformer.parts.recurrence.short_convolution import ShortConvolution


class ShortConvolutionModule(nn.Module):
    """(B, T, W) -> (B, T, W)."""

    def __init__(self, convolution: ShortConvolution, width: int) -> None:
        super().__init__()
        self.activation, self.dilation = built_activation(convolution.activation, width), convolution.dilation
        self.weight = nn.Parameter(torch.empty(width, convolution.kernel))
        self.bias = nn.Parameter(torch.empty(width)) if convolution.bias else None

    def extra_repr(self) -> str:
        return f"width={self.weight.shape[0]}, kernel={self.weight.shape[1]}"

    def forward(self, x_BTW: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        y = convolved(x_BTW, self.weight, context, state, self.dilation)
        y = y if self.bias is None else y + self.bias
        return self.activation(y).to(x_BTW.dtype)  # type: ignore[no-any-return]


def latest_input(width: int, batch: int, dtype: torch.dtype, device: torch.device) -> ConvolutionState:
    """The state of `previous`: the latest input, (B, 1, W), zeros at first."""
    return ConvolutionState(torch.zeros(batch, 1, width, dtype=dtype, device=device))


def previous(x_BTW: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
    """x_{t-1}, zeros at the first token of a row or a document: (B, T, W) -> (B, T, W)."""
    # 1, 0: counted on the device, as a list would be copied to it.
    shift = torch.arange(1, -1, -1, dtype=x_BTW.dtype, device=x_BTW.device).expand(x_BTW.shape[2], 2)
    return convolved(x_BTW, shift, context, state).to(x_BTW.dtype)


def convolved(
    x_BTW: Tensor, weight: Tensor, context: Context, state: ConvolutionState | None = None, dilation: int = 1
) -> Tensor:
    """The convolution with a weight (W, n) in fp32 at least; it updates the state."""
    inputs = Filtered.of(x_BTW, dilation * (weight.shape[1] - 1), context, state)
    return inputs.returned(convolve(inputs.wide, weight, inputs.segments, dilation=dilation))
