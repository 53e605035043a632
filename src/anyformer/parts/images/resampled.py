"""A learned table of positions over a square, resampled to the rows and columns of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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

    def sketch(self, width: int) -> Sketch:
        return Sketch("Learned positions", (f"{self.side} × {self.side} × {number(width)}", f"{self.by} to rows and columns"))

    def build(self, width: int) -> ResampledModule:
        from anyformer.parts.images.resampled_module import ResampledModule

        return ResampledModule(self, width)

    def cost(self, width: int) -> Tally:
        return Tally({"weight": Weight((self.side**2, width), "replicate", "embedding")})
