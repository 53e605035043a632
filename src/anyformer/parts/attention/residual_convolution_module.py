"""The modules of short causal filters that add to what they read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.residual_convolution import ResidualConvolution, SideConvolution
from anyformer.parts.call.context import Context
from anyformer.parts.call.convolved_state import ConvolvedAnnotatedState, ConvolvedRing, ConvolvedState
from anyformer.parts.call.convolving import Filtered
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.call.state import State
from anyformer.parts.pointwise.filters import convolve
from anyformer.parts.slot import Side


def state_of(state: State | None, side: Side) -> ConvolutionState | None:
    """The state of the filter of a side."""
    if state is None:
        return None
    assert isinstance(state, ConvolvedState | ConvolvedAnnotatedState | ConvolvedRing), "made by the description"
    return state.convolutions[side]


def added(x_BTW: Tensor, weight_Wn: Tensor, factor: float, context: Context, state: ConvolutionState | None) -> Tensor:
    """(x + convolution of x) * factor, in fp32 within."""
    inputs = Filtered.of(x_BTW, weight_Wn.shape[1] - 1, context, state)
    y_BTW = inputs.returned(convolve(inputs.wide, weight_Wn, inputs.segments))
    return ((x_BTW.float() + y_BTW) * factor).to(x_BTW.dtype)


class ResidualConvolutionModule(nn.Module):
    """(B, T, W) -> (B, T, W)."""

    def __init__(self, part: ResidualConvolution, width: int) -> None:
        super().__init__()
        self.factor = part.factor
        self.weight = nn.Parameter(torch.empty(width, part.kernel))

    def forward(self, x_BTW: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        return added(x_BTW, self.weight, self.factor, context, state)


class SideConvolutionModule(nn.Module):
    """Keys or values side by side, (B, T, W) -> (B, T, W)."""

    def __init__(self, part: SideConvolution, width: int, heads: int, inputs: int) -> None:
        super().__init__()
        self.factor = part.factor
        self.weight = nn.Parameter(torch.empty(width, part.kernel))

    def forward(self, y_BTW: Tensor, x_BTD: Tensor, context: Context, state: ConvolutionState | None) -> Tensor:
        return added(y_BTW, self.weight, self.factor, context, state)


class TokenConvolutionModule(nn.Module):
    """The same with taps of each token: `static` (n, W), the present first, and `taps` of what the side is projected from."""

    def __init__(self, part: SideConvolution, width: int, heads: int, inputs: int) -> None:
        super().__init__()
        self.factor, self.heads, self.kernel = part.factor, heads, part.kernel
        self.static = nn.Parameter(torch.empty(part.kernel, width))
        self.taps = nn.Linear(inputs, heads * part.kernel, bias=False)

    def forward(self, y_BTW: Tensor, x_BTD: Tensor, context: Context, state: ConvolutionState | None) -> Tensor:
        n, (B, T, W) = self.kernel, y_BTW.shape
        inputs = Filtered.of(y_BTW, n - 1, context, state)
        own = inputs.along(self.taps(x_BTD)).float().view(B, T, self.heads, n)
        total = torch.zeros(B, T, self.heads, W // self.heads, dtype=torch.float32, device=y_BTW.device)
        for j in range(n):
            near = inputs.wide[:, n - 1 - j : n - 1 - j + T].float()
            if inputs.segments is not None:
                other = inputs.segments[:, n - 1 - j : n - 1 - j + T] != inputs.segments[:, n - 1 :]
                near = near.masked_fill(other[..., None], 0)
            weight = self.static[j].float().view(self.heads, -1) + own[..., j : j + 1]
            total = total + near.view(B, T, self.heads, -1) * weight
        summed = inputs.returned(total.flatten(2))
        return ((y_BTW.float() + summed) * self.factor).to(y_BTW.dtype)
