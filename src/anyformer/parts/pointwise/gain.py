"""Learned factors of a branch's output, or of the stream itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Value
from anyformer.operations import Weight

if TYPE_CHECKING:
    from torch import Tensor


class Gain(Value):
    """A learned factor of a branch or of a step: y = g * x, g: (D,) or one number; `bounded`: y = tanh(g) * x.

    LayerScale: Touvron et al. 2021, arXiv 2103.17239; ReZero: Bachlechner et al. 2020, arXiv 2003.04887; bounded, the gated
    cross-attention of Flamingo (Alayrac et al. 2022, arXiv 2204.14198, section 2.2), whose alpha is our g.
    """

    per: Literal["feature", "branch"] = "feature"
    initial: float = 1e-5
    """Its initial value (CaiT: 1e-5; ReZero and Flamingo: 0)."""
    bounded: bool = False
    """Take tanh(g) as the factor."""

    def weight(self, width: int) -> Weight:
        """(D,) or (1,)."""
        return Weight((width if self.per == "feature" else 1,), "replicate", self.initial)

    def scaled(self, x_D: Tensor, weight: Tensor) -> Tensor:
        """x times the factor that `weight` stands for."""
        return x_D * (weight.tanh() if self.bounded else weight).to(x_D.dtype)
