"""A residual stream whose features have learned factors at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.operations import Tally, Weight
from anyformer.parts.layers.streams import StepStreams
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.layers.scaled_residual_module import ScaledResidualModule


class ScaledResidual(StepStreams):
    """x_n <- g_n * x_n + f(h), h the mean of the N streams, g (N, D) from 1: a step decides what of each feature it keeps.

    Doge (Shi et al. 2025; transformers 5.23, `doge`) has one stream. `GatedResidual` keeps the variance; this does not.
    """

    stability: ClassVar[str | None] = "scaled residual"
    kind: Literal["scaled_residual"] = "scaled_residual"
    count: Annotated[int, Field(ge=1)] = 1

    def sketch(self, width: int) -> Sketch:
        streams = "the residual stream" if self.count == 1 else f"{self.count} residual streams"
        return Sketch("Scaled residual", (f"{streams}, times a learned factor per feature at every step",))

    def merged(self, x_BTND: Tensor) -> Tensor:
        return x_BTND.mean(2)

    def build(self, width: int, index: int, inputs: Inputs = None) -> ScaledResidualModule:
        from anyformer.parts.layers.scaled_residual_module import ScaledResidualModule

        return ScaledResidualModule(self, width)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        return Tally({"gain": Weight((self.count, width), "replicate", "ones", linear=False)})
