"""Learned factors of a branch's output, or of the stream itself."""

from __future__ import annotations

from typing import Literal

from anyformer.describe import Value
from anyformer.operations import Weight


class Gain(Value):
    """A learned factor of a branch or of a step: y = g * x, g: (D,) or one number.

    LayerScale: Touvron et al. 2021, arXiv 2103.17239; ReZero: Bachlechner et al. 2020, arXiv 2003.04887.
    """

    per: Literal["feature", "branch"] = "feature"
    initial: float = 1e-5
    """Its initial value (CaiT: 1e-5; ReZero: 0)."""

    def weight(self, width: int) -> Weight:
        """(D,) or (1,)."""
        return Weight((width if self.per == "feature" else 1,), "replicate", self.initial)
