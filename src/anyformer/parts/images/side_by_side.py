"""A projector that joins neighbouring positions (Voxtral)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.side_by_side_module import SideBySideModule


class SideBySideProjector(Projector):
    """y = W_2 act(W_1 [x_1 ... x_n] + b_1) + b_2, n = `count` positions side by side; W_1 (D, n I), W_2 (D, D).

    Liu et al. 2025, "Voxtral" (arXiv 2507.13264), section 2.2: 4 positions, 80 ms of sound, without biases.
    """

    kind: Literal["side_by_side"] = "side_by_side"
    count: Count = 4
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        sizes = f"→ {number(width)} → {number(width)}"
        return Sketch("Projector", (f"{self.count} positions side by side", sizes, ACTIVATIONS[self.activation].title))

    def tokens(self, positions: int) -> int:
        if positions % self.count:
            raise ValueError(f"{positions} positions are joined by {self.count}, which does not divide them")
        return positions // self.count

    def build(self, inputs: int, width: int) -> SideBySideModule:
        from anyformer.parts.images.side_by_side_module import SideBySideModule

        return SideBySideModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * self.tokens(positions)
        return (
            matrix("first", self.count * inputs, width, rows, role="column", bias=self.bias)
            + matrix("second", width, width, rows, role="row", bias=self.bias)
            + total({"activation": ACTIVATIONS[self.activation].cost(width, rows)})
        )
