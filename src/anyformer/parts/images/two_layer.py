"""A projector of two layers, position by position (LLaVA 1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Choice, Count
from anyformer.operations import Tally, matrix, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.two_layer_module import TwoLayerModule


class TwoLayerProjector(Projector):
    """y = W_2 act(W_1 norm(x) + b_1) + b_2, W_1 (F, I), W_2 (D, F): a token per position of an image.

    Liu et al. 2023, "Improved Baselines with Visual Instruction Tuning" (LLaVA 1.5, arXiv 2310.03744), section 3.3.
    """

    kind: Literal["two_layer"] = "two_layer"
    hidden: Count | None = None
    """F; None: D."""
    norm: Norm | None = None
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        sizes = f"→ {number(self.hidden or width)} → {number(width)}"
        return Sketch("Projector of two layers", (*norm, sizes, ACTIVATIONS[self.activation].title))

    def tokens(self, positions: int) -> int:
        return positions

    def build(self, inputs: int, width: int) -> TwoLayerModule:
        from anyformer.parts.images.two_layer_module import TwoLayerModule

        return TwoLayerModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        rows, hidden = images * positions, self.hidden or width
        norm = total({"norm": self.norm.cost(inputs, rows)}) if self.norm else Tally()
        return (
            norm
            + matrix("first", inputs, hidden, rows, role="column", bias=self.bias)
            + matrix("second", hidden, width, rows, role="row", bias=self.bias)
            + total({"activation": ACTIVATIONS[self.activation].cost(hidden, rows)})
        )
