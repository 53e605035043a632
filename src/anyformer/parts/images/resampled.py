"""A learned table of positions over a square, resampled to the rows and columns of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from anyformer.describe import Count
from anyformer.operations import Tally, Weight
from anyformer.parts.sketch import Drawn, Sketch, number

if TYPE_CHECKING:
    from anyformer.parts.images.resampled_module import ResampledModule


class ResampledPosition(Drawn):
    """x + P', P (side, side, D) interpolated to the rows and columns of an image's patches.

    Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words" (ViT, arXiv 2010.11929), section 3.2; for every image by its own
    size in Qwen3-VL (arXiv 2511.21631).
    """

    side: Count
    """Rows and columns of the table."""
    by: Literal["bilinear", "bicubic"] = "bilinear"
    """The interpolation; `bicubic`: with a = -0.75, as torch has it."""
    corners: Literal["centres", "edges"] = "centres"
    """What the outermost patches are laid upon: the centres of the table's corners, or their outer edges."""

    antialias: bool = False
    """Whether an image with fewer patches than the table has rows averages over all of them (SigLIP 2: Tschannen et al. 2025,
    arXiv 2502.14786); bilinear with `corners = "edges"` alone."""

    @model_validator(mode="after")
    def _averages(self) -> ResampledPosition:
        if self.antialias and (self.by, self.corners) != ("bilinear", "edges"):
            raise ValueError(f"antialias: by = {self.by!r}, corners = {self.corners!r}: set by = 'bilinear', corners = 'edges'")
        return self

    def sketch(self, width: int) -> Sketch:
        return Sketch("Learned positions", (f"{self.side} × {self.side} × {number(width)}", f"{self.by} to rows and columns"))

    def build(self, width: int) -> ResampledModule:
        from anyformer.parts.images.resampled_module import ResampledModule

        return ResampledModule(self, width)

    def cost(self, width: int) -> Tally:
        return Tally({"weight": Weight((self.side**2, width), "replicate", "embedding")})
