"""The RMS norm of features that were multiplied by their gains before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive
from anyformer.operations import Tally, Weight
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.norm import GainKind, Norm

if TYPE_CHECKING:
    from anyformer.parts.norms.gained_first_module import GainedFirstModule


class GainedFirst(Norm):
    """y = u / sqrt(mean(u^2) + eps), u = g * x, over D: the result has a root mean square of 1, whatever the gains g.

    Muse Spark (Meta 2026; transformers 5.23, `muse_spark`): g = 1 + w. `RMSNorm` divides x and multiplies then.
    """

    gain: ClassVar[GainKind] = "none"
    bias: ClassVar[bool] = False
    kind: Literal["gained_first"] = "gained_first"
    eps: Positive = 1e-5
    first: Literal["weight", "one_plus_weight"] = "weight"
    """g: w, starting at 1, or 1 + w, w starting at 0."""

    def build(self, width: int) -> GainedFirstModule:
        from anyformer.parts.norms.gained_first_module import GainedFirstModule

        return GainedFirstModule(self, width)

    def cost(self, width: int, vectors: int) -> Tally:
        weight = Weight((width,), "replicate", "ones" if self.first == "weight" else "zeros")
        return Tally({"weight": weight}, {"": normalised(width, vectors, 4 * width + 2)})
