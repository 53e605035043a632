"""Positions by convolution: what stands around a position tells where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Choice, Count
from anyformer.operations import Limit, Product, Tally, Weight, total
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.positions.absolute import Position
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.positions.convolutional_module import ConvolutionalPositionModule


class ConvolutionalPosition(Position):
    """x_t + f(...f(x))_t, f(x)_t = act(norm(sum over j < n of W_j x_(t + j - floor(n / 2)) + b)), n = `kernel`.

    W: (D, D / groups, n), block-diagonal: the features of a group read their own. Padding, and what is beyond the row, is 0 in
    every layer. With `weights = "normed"` W_j = g_j V_j / |V_j|, a length g_j per tap, |V_j| the norm of all of V_j (weight
    norm, Salimans & Kingma 2016, arXiv 1602.07868): wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477, section 2: one layer,
    n = 128, 16 groups). data2vec (Baevski et al. 2022, arXiv 2202.03555) has five, n = 19, with a norm and plain weights.
    """

    position_name: ClassVar[str] = "convolutional"
    kind: Literal["convolutional_position"] = "convolutional_position"
    kernel: Count = 128
    """n, positions that an output reads; of an even number one more before it than behind."""
    groups: Count = 16
    layers: Annotated[int, Field(ge=1)] = 1
    """Convolutions, one after the other."""
    weights: Literal["plain", "normed"] = "plain"
    norm: Norm | None = None
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"

    def sketch(self, width: int) -> Sketch:
        times = f"{self.layers} convolutions" if self.layers > 1 else "convolution"
        return Sketch("Positions by convolution", (f"{times} of {self.kernel} in {self.groups} groups",))

    @property
    def limits(self) -> tuple[Limit, ...]:
        ahead = Limit.each("a convolution around a position reads later ones", "causal", "stepwise", "chunked", "cached")
        return (*ahead, Limit("packed", "a convolution around a position reads neighbours of other documents"))

    def check(self, width: int) -> None:
        if width % self.groups:
            raise ValueError(
                f"groups must divide the features that they share out, got groups = {self.groups}, width = {width}"
            )

    def build(self, width: int) -> ConvolutionalPositionModule:
        from anyformer.parts.positions.convolutional_module import ConvolutionalPositionModule

        return ConvolutionalPositionModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        inputs = width // self.groups
        table = Weight((width, inputs, self.kernel), "replicate", "matrix", linear=False)
        weights = {"weight": table}
        if self.weights == "normed":
            weights = {"direction": table, "scale": Weight((self.kernel,), "replicate", "ones")}
        weights["bias"] = Weight((width,), "replicate", "zeros")
        product = Product(rows, inputs * self.kernel, width, "replicate", blocks=self.groups)
        inner = {"activation": ACTIVATIONS[self.activation].cost(width, rows)}
        inner |= {"norm": self.norm.cost(width, rows)} if self.norm else {}
        layer = Tally(weights, {"": product}) + total(inner)
        return total({f"layers.{i}": layer for i in range(self.layers)}) + Tally(own_limits=self.limits)
