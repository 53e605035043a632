"""Gated short convolution: a mixer of a few neighbouring positions."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from anyformer.operations import Shape, Tally, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.recurrence.recurrence import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

Projection = Literal["gate_before", "gate_after", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate_before", "gate_after", "value", "output")


class GatedConvolution(Sublayer):
    """y = (x W_after * conv(x W_before * x W_value)) W_output, all W: (D, D) (LFM2, arXiv 2511.23404).

    LFM2's B, C, x are the outputs of gate_before, gate_after and value; its kernel is 3.
    """

    kind: Literal["gated_convolution"] = "gated_convolution"
    convolution: ShortConvolution = ShortConvolution(kernel=3)
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    def sketch(self, width: int) -> Sketch:
        D = number(width)
        before = fan(Cell(f"gate {D}"), Cell(f"value {D}"), join="×")
        inner = fan(chain(before, Cell(self.convolution.words, "mix")), Cell(f"gate {D}"), join="×")
        return Sketch("Gated convolution", biases(self.bias, 4), chain(inner, Cell(f"output {D}")))

    @property
    def traits(self) -> Traits:
        return Traits("convolution")

    def build(self, width: int, plan: Plan, name: str) -> GatedConvolutionModule:
        return GatedConvolutionModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.rows
        parts = total({"convolution": self.convolution.cost(width, rows)})
        for name in ("gate_before", "gate_after", "value"):
            parts += matrix(name, width, width, rows, role="column", bias=name in self.bias)
        parts += matrix("output", width, width, rows, role="row", bias="output" in self.bias, fill="residual")
        state = self.convolution.state_elements(width, shape.batch) * plan.activation_bytes
        return parts + Tally(own_state=recurrent(state, shape))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> ConvolutionState:
        """B * (n - 1) * D elements, for any capacity."""
        return self.convolution.state(width, batch, dtype, device)


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
        mixed_BTD = self.convolution(self.gate_before(x_BTD) * self.value(x_BTD), context, state)
        return self.output(self.gate_after(x_BTD) * mixed_BTD)  # type: ignore[no-any-return]
