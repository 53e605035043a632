"""A residual stream whose features each keep a learned share of their past, at constant variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Positive
from anyformer.operations import Tally, Weight
from anyformer.parts.layers.streams import StepStreams
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.layers.gated_residual_module import GatedResidualModule


class GatedResidual(StepStreams):
    """x_n <- a_n * x_n + b_n * f(h), h the mean of the N streams: b = sigmoid(g / temperature), a = sqrt(1 - b^2), g (N, D).

    a^2 + b^2 = 1 keeps the variance of independent values, as `residual_scale = "by_layer"` does with numbers. Muse Spark (Meta
    2026; transformers 5.23, `muse_spark`) has one stream; several forget at rates of their own, and are averaged at the end.
    """

    stability: ClassVar[str | None] = "gated residual"
    kind: Literal["gated_residual"] = "gated_residual"
    count: Annotated[int, Field(ge=1)] = 1
    temperature: Positive = 0.3
    least: Positive = 1e-3
    """The least a^2."""

    def sketch(self, width: int) -> Sketch:
        streams = "the residual stream" if self.count == 1 else f"{self.count} residual streams"
        return Sketch("Gated residual", (f"{streams}, of which a step keeps a learned share per feature",))

    def merged(self, x_BTND: Tensor) -> Tensor:
        return x_BTND.mean(2)

    def build(self, width: int, index: int, inputs: Inputs = None) -> GatedResidualModule:
        from anyformer.parts.layers.gated_residual_module import GatedResidualModule

        return GatedResidualModule(self, width)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        return Tally({"gate": Weight((self.count, width), "replicate", "zeros", linear=False)})
