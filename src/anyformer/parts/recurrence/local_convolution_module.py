"""The module of short convolutions in branches of their own."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.recurrence.local_convolution import LocalConvolution


class LocalConvolutionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: LocalConvolution, width: int) -> None:
        super().__init__()
        self.convolution = part.convolution.build(width)

    def forward(self, x_BTD: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        return self.convolution(x_BTD, context, state)  # type: ignore[no-any-return]
