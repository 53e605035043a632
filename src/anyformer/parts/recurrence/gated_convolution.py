"""Gated short convolution: a mixer of a few neighbouring positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState
    from anyformer.parts.recurrence.gated_convolution_module import GatedConvolutionModule


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
        from anyformer.parts.recurrence.gated_convolution_module import GatedConvolutionModule

        return GatedConvolutionModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.rows
        parts = total({"convolution": self.convolution.cost(width, rows)})
        for name in ("gate_before", "gate_after", "value"):
            parts += matrix(name, width, width, rows, role="column", bias=name in self.bias)
        parts += matrix("output", width, width, rows, role="row", bias="output" in self.bias, fill="residual")
        state = self.convolution.state_elements(width, shape.batch) * plan.activation_bytes
        return parts + Tally(own_state=recurrent(state, shape))

    def watchable(self, width: int) -> Watchables:
        channels = value("BTD", "values", D=width)
        about = {
            "gate_before": "the gate of what is convolved", "gate_after": "the gate of what was", "value": "values",
            "mixed": "what was convolved", "hidden": "what the output projection reads",
        }  # fmt: skip
        return {name: replace(channels, about=words) for name, words in about.items()}

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> ConvolutionState:
        """B * (n - 1) * D elements, for any capacity."""
        return self.convolution.state(width, batch, dtype, device)
