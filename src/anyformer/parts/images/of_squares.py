"""The base of projectors that make one token of a square of patches, read by a projector within."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from anyformer.parts.images.projector import Projector


class ProjectorOfSquares(Projector):
    """y = inner(what becomes of the n = side^2 patches of a square)."""

    side: Annotated[int, Field(ge=1)] = 2
    """Patches along the side of a square."""
    inner: Projector
    """What reads the features of a square."""

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.inner.square > 1:
            raise ValueError(f"inner: merges squares of {self.inner.square} patches itself: merge them once, by a larger side")
        return self

    @property
    def square(self) -> int:
        return self.side

    def tokens(self, positions: int) -> int:
        if positions % self.side**2:
            raise ValueError(
                f"an image has {positions} positions, and squares take {self.side} x {self.side}: choose another side"
            )
        return self.inner.tokens(positions // self.side**2)
