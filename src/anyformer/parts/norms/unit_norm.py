"""Vectors of length 1: the norm of transformers on the unit sphere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive
from anyformer.operations import Elementwise
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.layer_norm import FeatureNorm
from anyformer.parts.norms.norm import GainKind

if TYPE_CHECKING:
    from anyformer.parts.norms.layer_norm_module import NormModule


class UnitNorm(FeatureNorm):
    """Divide by the length: y = x / sqrt(sum(x^2) + eps) * gain, over D, so that |y| = 1, where RMSNorm makes it sqrt(D).

    nGPT (Loshchilov et al. 2024, arXiv 2410.01131), whose Norm has no gain.
    """

    centres: ClassVar[bool] = False
    kind: Literal["unit_norm"] = "unit_norm"
    eps: Positive = 1e-6
    gain: GainKind = "none"
    bias: bool = False
    cast: Literal["before_gain", "after_gain"] = "before_gain"

    def build(self, width: int) -> NormModule:
        from anyformer.parts.norms.layer_norm_module import NormModule
        from anyformer.parts.norms.unit_norm_module import unit_length

        return NormModule(self, width, partial(unit_length, eps=self.eps))

    def work(self, width: int, vectors: int, groups: int = 1) -> Elementwise:
        # Squares n, their sum n - 1, eps and the root 2, quotients n.
        return normalised(width, vectors, (3 + (self.gain != "none") + self.bias) * width + groups)
