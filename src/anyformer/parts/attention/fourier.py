"""Fourier transforms in place of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Elementwise, Limit, Shape, Tally
from anyformer.parts.sketch import Cell, Sketch
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.attention.fourier_module import FourierMixingModule


class FourierMixing(Sublayer):
    """y = Re(F_T(F_D(x))): the real part of the discrete Fourier transform over features and positions, without weights.

    y_tf = sum over s, g of x_sg cos(2 pi (t s / T + f g / D)), (B, T, D) -> (B, T, D). FNet (Lee-Thorp et al. 2022, arXiv
    2105.03824): 92 to 97 % of BERT's accuracy on GLUE. Every output depends on all T positions of the row, padding included.
    """

    kind: Literal["fourier_mixing"] = "fourier_mixing"

    def sketch(self, width: int) -> Sketch:
        return Sketch("Fourier mixing", flow=Cell("transform over features and positions", "mix"))

    @property
    def traits(self) -> Traits:
        return Traits("Fourier", "frequencies")

    def build(self, width: int, plan: Plan, name: str) -> FourierMixingModule:
        from anyformer.parts.attention.fourier_module import FourierMixingModule

        return FourierMixingModule()

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        """No matrix product: 5 n ceil(log2 n) operations per transform of n numbers, as fast transforms are usually counted."""
        count = 5 * shape.rows * width * (max(width * shape.length, 2) - 1).bit_length()
        work = Elementwise("activations", count, count, moved=4 * shape.rows * width)
        reason = "a Fourier transform over positions reads the whole row, padding included"
        limits = Limit.each(reason, "causal", "stepwise", "chunked", "cached", "packed", "padded")
        return Tally(own_work={"transform": work}, own_limits=limits)
