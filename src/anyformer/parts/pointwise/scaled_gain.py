"""Learned factors that are stored at another size than they act at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import Positive, Value
from anyformer.operations import Dimension, Role, Weight

if TYPE_CHECKING:
    from torch import Tensor


class ScaledGain(Value):
    """g = (initial / stored) s, s a learned vector that starts at `stored`, so that g starts at `initial`.

    A step of Adam moves s by about the learning rate, whatever it stands for, and so g by initial / stored times that: the
    scaled parameters of nGPT (Loshchilov et al. 2024, arXiv 2410.01131, section 2.5), whose s_init and s_scale these are.
    """

    initial: Positive = 1.0
    stored: Positive = 1.0

    def weight(self, features: int, role: Role = "replicate", axes: tuple[Dimension, ...] = ()) -> Weight:
        """s, (features,)."""
        return Weight((features,), role, self.stored, axes=axes)

    def taken(self, stored: Tensor) -> Tensor:
        """g, of s."""
        return stored * (self.initial / self.stored)
