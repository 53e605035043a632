"""The module of gated short convolution."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.recurrence.gated_convolution import GatedConvolution


class GatedConvolutionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, gated: GatedConvolution, width: int) -> None:
        super().__init__()
        self.gate_before = nn.Linear(width, width, bias="gate_before" in gated.bias)
        self.gate_after = nn.Linear(width, width, bias="gate_after" in gated.bias)
        self.value = nn.Linear(width, width, bias="value" in gated.bias)
        self.convolution = gated.convolution.build(width)
        self.output = nn.Linear(width, width, bias="output" in gated.bias)

    def forward(self, x_BTD: Tensor, context: Context, state: ConvolutionState | None = None) -> Tensor:
        before_BTD, after_BTD = (
            context.see(f"gate_{at}", self.get_submodule(f"gate_{at}")(x_BTD)) for at in ("before", "after")
        )
        value_BTD = context.see("value", self.value(x_BTD))
        mixed_BTD = context.see("mixed", self.convolution(before_BTD * value_BTD, context, state))
        return self.output(context.see("hidden", after_BTD * mixed_BTD))  # type: ignore[no-any-return]
