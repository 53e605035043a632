"""Dynamic tanh: a bounded function of each feature by itself, in the place of a norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive
from anyformer.operations import Tally, Weight
from anyformer.operations.elementwise import ACTIVATED, normalised
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias

if TYPE_CHECKING:
    from anyformer.parts.norms.dynamic_tanh_module import DynamicTanhModule


class DynamicTanh(Norm):
    """y = tanh(alpha x) * gain + bias, over D, alpha one learned number (DyT, Zhu et al. 2025, arXiv 2503.10622).

    It has no statistics, so no feature waits for the others. The paper's gamma and beta are our gain and bias. In the log of
    nanochat it is no better than RMSNorm.
    """

    gain: ClassVar[GainKind] = "weight"
    bias: ClassVar[bool] = True
    kind: Literal["dynamic_tanh"] = "dynamic_tanh"
    initial: Positive = 0.5
    """The first value of alpha; the paper takes a smaller one, down to 0.1, the wider the model."""

    def build(self, width: int) -> DynamicTanhModule:
        from anyformer.parts.norms.dynamic_tanh_module import DynamicTanhModule

        return DynamicTanhModule(width)

    def cost(self, width: int, vectors: int) -> Tally:
        work = normalised(width, vectors, (1 + ACTIVATED + 2) * width)
        return gain_and_bias(self.gain, self.bias, width, work) + Tally({"alpha": Weight((1,), "replicate", self.initial)})
