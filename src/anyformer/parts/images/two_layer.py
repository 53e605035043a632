"""A projector of two layers, position by position (LLaVA 1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.two_layer_module import TwoLayerModule


class TwoLayerProjector(Projector):
    """y = W_2 act(W_1 x + b_1) + b_2, W_1 (D, I), W_2 (D, D): a token per position of an image.

    Liu et al. 2023, "Improved Baselines with Visual Instruction Tuning" (LLaVA 1.5, arXiv 2310.03744), section 3.3.
    """

    kind: Literal["two_layer"] = "two_layer"
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        return Sketch("Projector of two layers", (f"→ {number(width)} → {number(width)}", ACTIVATIONS[self.activation].title))

    def tokens(self, positions: int) -> int:
        return positions

    def build(self, inputs: int, width: int) -> TwoLayerModule:
        from anyformer.parts.images.two_layer_module import TwoLayerModule

        return TwoLayerModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows = images * positions
        return (
            matrix("first", inputs, width, rows, role="column", bias=self.bias)
            + matrix("second", width, width, rows, role="row", bias=self.bias)
            + total({"activation": ACTIVATIONS[self.activation].cost(width, rows)})
        )
