"""Values of an earlier layer mixed into those of self-attention."""

from __future__ import annotations

from anyformer.describe import Value


class ValueResidual(Value):
    """v' = own * v + other * v_other, with an earlier layer's values of the same tokens (ResFormer), (B, T, K, U).

    Zhou et al. 2024, arXiv 2410.17897: v_other is the first layer's, and both factors are 0.5.
    """

    variant: str
    """The variant whose latest layer before this one has v_other: the first layer's values need a variant of its own."""
    own: float = 0.5
    other: float = 0.5
