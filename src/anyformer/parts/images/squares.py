"""A projector of squares of patches side by side: pixel shuffle (InternVL, Idefics 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.operations import Tally, total
from anyformer.parts.images.of_squares import ProjectorOfSquares
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.images.squares_module import SquaresModule


class SquaresProjector(ProjectorOfSquares):
    """y = inner([x_1 ... x_n]): the n = side^2 patches of a square side by side, row by row, are the n I features of a token.

    Shi et al. 2016 (arXiv 1609.05158) undone: "pixel unshuffle". Chen et al. 2024, "How Far Are We to GPT-4V?" (InternVL 1.5,
    arXiv 2404.16821), section 3.1; Laurençon et al. 2024, "Building and better understanding vision-language models" (Idefics
    3, arXiv 2408.12637), section 3.1.
    """

    kind: Literal["squares"] = "squares"
    side: Annotated[int, Field(ge=2)] = 2
    """Patches along the side of a square."""

    def sketch(self, width: int) -> Sketch:
        inner = self.inner.sketch(width)
        return Sketch(inner.title, (f"{self.side} × {self.side} patches side by side", *inner.facts))

    def build(self, inputs: int, width: int) -> SquaresModule:
        from anyformer.parts.images.squares_module import SquaresModule

        return SquaresModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        squares = self.side**2
        return total({"inner": self.inner.cost(squares * inputs, width, images, positions // squares)})
