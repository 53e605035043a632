"""Output gates: the mixed heads times a nonlinearity of the layer's input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import model_validator

from anyformer.describe import Choice, Count, Value
from anyformer.operations import AxisName, Dimension, Tally, Weight, matrix, total
from anyformer.parts.pointwise.activation import ACTIVATIONS

if TYPE_CHECKING:
    from anyformer.parts.pointwise.gate_module import GateModule


class Gate(Value):
    """mixed * act(x W_g), a gate per feature of every head, W_g (D, H * E), or one per head, W_g (D, H).

    Sigmoid gates by element: Qwen3-Next; by head: Step-3; softplus: Laguna; SiLU: gated delta nets; through `rank` features,
    W_g = W_down W_projection: Kimi Linear. (Qiu et al. 2025, arXiv 2505.06708.) `bias`: one number per gate, or `head`:
    one per head (Beam).
    """

    per: Literal["feature", "head"] = "feature"
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "sigmoid"
    bias: bool | Literal["head"] = False
    rank: Count | None = None

    @model_validator(mode="after")
    def _one_bias(self) -> Gate:
        if self.per == "head" and self.bias == "head":
            raise ValueError("one gate per head has one bias per head: set bias = true")
        return self

    def module(self, width: int, heads: int, head_width: int) -> GateModule:
        from anyformer.parts.pointwise.gate_module import GateModule

        return GateModule(self, width, heads, head_width)

    def work(self, width: int, heads: int, head_width: int, rows: int, *, of: AxisName | None = None) -> Tally:
        """Its weights and its work; `of`: what the heads are, where their number may change."""
        outputs, each = self.outputs(heads, head_width), (("features", head_width),) if self.per == "feature" else ()
        outputs_as: Dimension = () if of is None else ((of, heads), *each)
        parts = matrix(
            "projection", self.rank or width, outputs, rows, role="column", bias=self.bias is True, outputs_as=outputs_as
        )
        if self.bias == "head":
            axes: Dimension = ((of or "heads", heads),)
            parts += Tally({"bias": Weight((heads,), "column", "zeros", axes=(axes,))})
        parts += total({"activation": ACTIVATIONS[self.activation].cost(outputs, rows, gated=True)})
        return matrix("down", width, self.rank, rows, role="replicate") + parts if self.rank else parts

    def outputs(self, heads: int, head_width: int) -> int:
        """The number of gates of a token."""
        return heads * (head_width if self.per == "feature" else 1)
