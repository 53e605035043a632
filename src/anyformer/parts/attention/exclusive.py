"""Exclusive self-attention: a head's output without the direction of the token's own value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Dimension, Shape, Tally, Weight, total
from anyformer.parts.attention.slots import AttentionCall, Combine
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class Exclusive(Combine):
    """y' = y - a (y . v) v / |v|^2, y (B, H, T, U) the mixed values and v the value of the same token and of y's group.

    Exclusive self-attention (XSA) takes out all of it, a = 1; `learned`: a = tanh(w), w (H) from 0 (NeoMME). In the log of
    nanochat it is better at equal steps and not at equal time.
    """

    name: ClassVar[str] = "exclusive"
    order: ClassVar[int] = -2
    rules_out: ClassVar[frozenset[Way]] = frozenset({"pairs of heads", "source", "latent"})
    needs_own_keys: ClassVar[bool] = True
    strength: Literal["whole", "learned"] = "whole"

    @property
    def words(self) -> tuple[str, ...]:
        return ("without the direction of a token's own value",)

    @property
    def technique(self) -> str:
        return "exclusive"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.exclusive_module import ExclusiveModule

        return {"exclusive": ExclusiveModule(self, sizes.heads)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        axes: Dimension = (("heads", sizes.heads),)
        weight = Weight((sizes.heads,), "column", "zeros", axes=(axes,))
        return total({"exclusive": Tally({"weight": weight})}) if self.strength == "learned" else Tally()

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        return call.built("exclusive")(y_BHTU, call.values)  # type: ignore[no-any-return]
