"""The base of streams weighed by all of a token's streams together, and what the stream behind the last layer is of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Positive
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.layers.streams import StepStreams

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.layers.streams_module import CopiesModule


class MergedStreams(StepStreams):
    """N residual streams whose weights are made of v, all N side by side (N * D), normalised without a gain."""

    eps: Positive = 1e-6
    """Added to the weights that streams are read with."""
    norm_eps: Positive = 1e-6
    """Of the norm of v."""
    merge: Literal["sum", "mean", "learned"] = "sum"
    """What the stream behind the last layer is of the N: their sum, their mean (GLM-5.3), or sum_n m_n x_n with weights of the
    token, m as that of a step, by a W, b and s of its own (DeepSeek-V4, Hy4)."""

    def merged(self, x_BTND: Tensor) -> Tensor:
        return x_BTND.mean(2) if self.merge == "mean" else x_BTND.sum(2)

    def build_ends(self, width: int) -> CopiesModule:
        from anyformer.parts.layers.merged_streams_module import LearnedMerge
        from anyformer.parts.layers.streams_module import CopiesModule

        return LearnedMerge(self, width) if self.merge == "learned" else CopiesModule(self)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        if self.merge != "learned":
            return Tally(), Tally()
        weights = {"strength": Weight((1,), "replicate", 0.01), "static": Weight((self.count,), "replicate", "zeros")}
        return Tally(), matrix("dynamic", self.count * width, self.count, rows, role="replicate") + Tally(weights)

    def vector(self, x_BTND: Tensor) -> Tensor:
        """v, (B, T, N * D), normalised in fp32."""
        from anyformer.parts.norms.layer_norm_module import normalise

        return normalise(x_BTND.float().flatten(2), self.norm_eps, centre=False).to(x_BTND.dtype)
