"""A gain and a bias in the place of a norm."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Tally
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias

if TYPE_CHECKING:
    from anyformer.parts.pointwise.depthwise_module import Depthwise


class Affine(Norm):
    """y = x * gain + bias, over D: what is left of LayerNorm without its statistics (MobileBERT's NoNorm, arXiv 2004.02984).

    Without a bias a factor of each feature, such as that of what Gemma 3n's gates of inputs of layers read.
    """

    gain: ClassVar[GainKind] = "weight"
    kind: Literal["affine"] = "affine"
    bias: bool = True

    def build(self, width: int) -> Depthwise:
        from anyformer.parts.pointwise.depthwise_module import Depthwise

        return Depthwise(width, bias=self.bias)

    def cost(self, width: int, vectors: int) -> Tally:
        return gain_and_bias(self.gain, self.bias, width, normalised(width, vectors, (1 + self.bias) * width))
