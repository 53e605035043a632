"""Values of an earlier layer mixed into those of self-attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.call.shared import VALUES, Read
from anyformer.parts.slot import Side, Way

if TYPE_CHECKING:
    from torch import Tensor


class ValueResidual(Adjustment):
    """v' = own * v + other * v_other, with an earlier layer's values of the same tokens (ResFormer), (B, T, K, U).

    Zhou et al. 2024, arXiv 2410.17897: v_other is the first layer's, and both factors are 0.5.
    """

    name: ClassVar[str] = "value_residual"
    order: ClassVar[int] = 3
    rules_out: ClassVar[frozenset[Way]] = frozenset({"source", "latent"})
    needs_own_keys: ClassVar[bool] = True
    variant: str
    """The variant whose latest layer before this one has v_other: the first layer's values need a variant of its own."""
    own: float = 0.5
    other: float = 0.5

    @property
    def words(self) -> tuple[str, ...]:
        return (f"with values of the latest {self.variant} layer",)

    @property
    def technique(self) -> str:
        return "value residual"

    def reads(self, groups: int) -> tuple[Read, ...]:
        return (Read(VALUES, self.variant, size=groups),)

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        if side != "value":
            return y_BTHE
        other: Tensor = call.context.shared[self.variant, VALUES]
        return self.own * y_BTHE + self.other * other
