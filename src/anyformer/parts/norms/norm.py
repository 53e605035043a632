"""The base of norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Registry
from anyformer.operations import Elementwise, Tally, Watchables, Weight, inside, sized
from anyformer.parts.sketch import Drawn, Sketch

if TYPE_CHECKING:
    from torch import nn


GainKind = Literal["weight", "one_plus_weight", "none"]
"""`weight`: w, starting at 1; `one_plus_weight`: 1 + w, w starting at 0 (Gemma); `none`: no gain."""


class Norm(Drawn):
    """The base of norms, which scale the features of each vector to a common size: (..., D) -> (..., D)."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def sketch(self, width: int) -> Sketch:
        return Sketch(type(self).__name__)

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def build(self, width: int) -> nn.Module:
        """The module: (..., width) -> (..., width)."""
        raise NotImplementedError

    def cost(self, width: int, vectors: int) -> Tally:
        """Its weights, and its work on `vectors` vectors."""
        raise NotImplementedError

    def watchable(self, width: int, lead: str = "BT", features: str = "D") -> Watchables:
        """The values that it shows on its way, of vectors of `width` features; `lead`: the dimensions before these."""
        return {}

    def shown(self, name: str, width: int, lead: str = "BT", features: str = "D") -> Watchables:
        """The values that are seen of a norm of this name: those on its way, and what it gives."""
        output = sized(lead + features, "what the norm gives", {features: width})
        return inside(name, {**self.watchable(width, lead, features), "output": output})


def gain_and_bias(gain: GainKind, bias: bool, width: int, work: Elementwise) -> Tally:
    """The weights of a norm over `width` features, beside its work."""
    weights: dict[str, Weight] = {}
    if gain != "none":
        weights["weight"] = Weight((width,), "replicate", "ones" if gain == "weight" else "zeros")
    if bias:
        weights["bias"] = Weight((width,), "replicate", "zeros")
    return Tally(weights, {"": work})
