"""A projector of squares of patches side by side: pixel shuffle (InternVL, Idefics 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.operations import Tally, total
from anyformer.parts.images.projector import Projector
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.images.squares_module import SquaresModule


class SquaresProjector(Projector):
    """y = inner([x_1 ... x_n]): the n = side^2 patches of a square side by side, row by row, are the n I features of a token.

    Shi et al. 2016 (arXiv 1609.05158) undone: "pixel unshuffle". Chen et al. 2024, "How Far Are We to GPT-4V?" (InternVL 1.5,
    arXiv 2404.16821), section 3.1; Laurençon et al. 2024, "Building and better understanding vision-language models" (Idefics
    3, arXiv 2408.12637), section 3.1.
    """

    kind: Literal["squares"] = "squares"
    side: Annotated[int, Field(ge=2)] = 2
    """Patches along the side of a square."""
    inner: Projector
    """What reads the features of a square."""

    @model_validator(mode="after")
    def _once(self) -> SquaresProjector:
        if self.inner.square > 1:
            raise ValueError(f"inner: merges squares of {self.inner.square} patches itself: merge them once, by a larger side")
        return self

    @property
    def square(self) -> int:
        return self.side

    def sketch(self, width: int) -> Sketch:
        inner = self.inner.sketch(width)
        return Sketch(inner.title, (f"{self.side} × {self.side} patches side by side", *inner.facts))

    def tokens(self, positions: int) -> int:
        if positions % self.side**2:
            raise ValueError(
                f"an image has {positions} positions, and squares take {self.side} x {self.side}: choose another side"
            )
        return self.inner.tokens(positions // self.side**2)

    def build(self, inputs: int, width: int) -> SquaresModule:
        from anyformer.parts.images.squares_module import SquaresModule

        return SquaresModule(self, inputs, width)

    def cost(self, inputs: int, width: int, images: int, positions: int) -> Tally:
        squares = self.side**2
        return total({"inner": self.inner.cost(squares * inputs, width, images, positions // squares)})
