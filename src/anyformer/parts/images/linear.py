"""A projector of one layer, position by position (PaliGemma)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Tally, matrix
from anyformer.parts.images.projector import Projector
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.linear_module import LinearModule


class LinearProjector(Projector):
    """y = W x + b, W (D, I): a token per position of an image.

    Beyer et al. 2024, "PaliGemma: A versatile 3B VLM for transfer" (arXiv 2407.07726), section 3.1.
    """

    kind: Literal["linear"] = "linear"
    bias: bool = True

    def sketch(self, width: int) -> Sketch:
        return Sketch("Projector", (f"→ {number(width)}",))

    def tokens(self, positions: int) -> int:
        return positions

    def build(self, inputs: int, width: int) -> LinearModule:
        from anyformer.parts.images.linear_module import LinearModule

        return LinearModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        return matrix("projection", inputs, width, images * positions, role="column", bias=self.bias)
