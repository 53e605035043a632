"""Views of images: another part of an image, mirrored, in other colours."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.parts.call.noise import Noise, uniform

GREY = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in the brightness of a pixel (ITU-R BT.601)."""
ASPECTS = (3 / 4, 4 / 3)
"""Width over height of a cut, at least and at most, as in Inception's training (arXiv 1409.4842)."""


class Views(Value):
    """A view of an image: a rectangle of it scaled to the whole size, perhaps mirrored, in other colours (SimCLR, arXiv
    2002.05709, appendix A, without its blur and its random order of colours).
    """

    area: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Smallest share of the image that a view shows; it shows between that and all. SimCLR: 0.08, of photographs."""
    flip: bool = True
    """Mirror every second view, left to right."""
    colour: Annotated[float, Field(ge=0, lt=1)] = 0.4
    """Brightness, contrast and, of coloured images, saturation are multiplied by a factor between 1 - colour and 1 + colour."""

    def of(self, images: Tensor, noise: Noise) -> Tensor:
        """(B, I, height, width) in 0 ... 255 -> the same of one view of every image; the draws are those of `noise` alone."""
        draws_B8 = uniform(noise, 0, torch.Size((len(images), 8)))
        return self._coloured(self._cut(images, draws_B8[:, :5]), draws_B8[:, 5:])

    def _cut(self, images: Tensor, draws_B5: Tensor) -> Tensor:
        """The rectangle, by bilinear interpolation."""
        area_B = self.area + (1 - self.area) * draws_B5[:, 0]
        # Of an area a, no side is longer than the image's where the aspect lies between a and 1 / a.
        low_B, high_B = (aspect.log() for aspect in (area_B.clamp(min=ASPECTS[0]), (1 / area_B).clamp(max=ASPECTS[1])))
        aspect_B = (low_B + (high_B - low_B) * draws_B5[:, 1]).exp()
        width_B, height_B = (area_B * aspect_B).sqrt(), (area_B / aspect_B).sqrt()
        # Coordinates from -1 to 1: the middle of the rectangle, and half of its sides.
        x_B, y_B = ((1 - side) * (2 * draw - 1) for side, draw in ((width_B, draws_B5[:, 2]), (height_B, draws_B5[:, 3])))
        if self.flip:
            width_B = torch.where(draws_B5[:, 4] < 0.5, -width_B, width_B)
        zero_B = torch.zeros_like(x_B)
        maps_B23 = torch.stack([torch.stack([width_B, zero_B, x_B], -1), torch.stack([zero_B, height_B, y_B], -1)], 1)
        grid = F.affine_grid(maps_B23, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=False)

    def _coloured(self, images: Tensor, draws_B3: Tensor) -> Tensor:
        """Brighter or darker, with more or less contrast and colour; a fourth channel, alpha, stays."""
        brightness, contrast, saturation = (1 + self.colour * (2 * draws_B3 - 1)).T[:, :, None, None, None]
        seen, alpha = images[:, :3], images[:, 3:]
        seen = (seen * brightness).clamp(0, 255)
        middle = grey(seen).mean((2, 3), keepdim=True)
        seen = (middle + contrast * (seen - middle)).clamp(0, 255)
        if seen.shape[1] == len(GREY):
            seen = (grey(seen) + saturation * (seen - grey(seen))).clamp(0, 255)
        return torch.cat([seen, alpha], 1)


def grey(images: Tensor) -> Tensor:
    """(B, I, height, width) of grey or coloured images -> (B, 1, height, width): their brightness."""
    if images.shape[1] == 1:
        return images
    return (images * torch.tensor(GREY).view(-1, 1, 1)).sum(1, keepdim=True)
