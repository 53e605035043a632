"""The base of towers that encode square images of one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from anyformer.parts.images.encoder import ImageEncoder

if TYPE_CHECKING:
    from torch import Tensor


class SquareImages(ImageEncoder):
    """Encoders of squares of `image` pixels a side, all with as many positions.

    Pixels at the right and below that fill no patch are not read, as a convolution leaves them out.
    """

    kind: str
    skipped: Annotated[int, Field(ge=0)] = 0
    """First positions of an image that the projector does not read: a class token (LLaVA)."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.image < self.patches.size:
            raise ValueError(f"images of {self.image} pixels have no patch of {self.patches.size}")
        if self.skipped >= self.positions:
            raise ValueError(f"skips {self.skipped} positions, and an image has {self.positions}")
        longest = self.stack.max_length
        if longest is not None and longest < self.positions:
            raise ValueError(f"an image has {self.positions} positions, and the position table of the tower ends at {longest}")
        if self.projector.square > 1 and (self.per_side % self.projector.square or self.skipped != self.patches.class_tokens):
            raise ValueError(
                f"projector: reads squares of {self.projector.square} x {self.projector.square} patches, of which an image has "
                f"{self.per_side} a side, and no learned vectors among them: set skipped = {self.patches.class_tokens}, and "
                f"another side"
            )
        self.check_fields()
        return self

    @property
    def per_side(self) -> int:
        """Patches along a side of an image."""
        return self.image // self.patches.size

    def filled(self, images: Tensor) -> Tensor:
        """The pixels of images that fill patches: the last ones of a side that they do not divide are left out."""
        end = self.per_side * self.patches.size
        return images[..., :end, :end]

    @property
    def unread(self) -> int:
        return self.skipped
