"""The module of towers of images in tiles."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from anyformer.parts.call.context import Context
from anyformer.parts.images.encoder_module import ImageEncoderModule, Images
from anyformer.parts.images.tiles import TiledTower, Tiles
from anyformer.plan import Plan


class TiledTowerModule(ImageEncoderModule):
    """Images in tiles -> (tokens of all, D). The tiles of all images are encoded together."""

    def __init__(self, tower: TiledTower, width: int, plan: Plan, name: str) -> None:
        super().__init__(tower, width, plan, name)
        self.tower = tower
        self.newline = nn.Parameter(torch.empty(width))

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        pixels = self.tower.filled(torch.cat([image.pixels for image in images]))
        x_nSD = self.patches(pixels, None, None)
        positions = torch.arange(x_nSD.shape[1], device=x_nSD.device)[None]
        context = Context(positions, self.plan, padded=False, axes=self.tower.patches.axes(pixels))
        first = self.tower.skipped
        found = self.features(x_nSD, context, positions[0, first:] if first else None)
        counts = [len(image.pixels) for image in images]
        ends = (self.newline, *(torch.zeros_like(self.newline) for _ in found[1:]))
        return tuple(self._of_all(images, torch.split(y_nSD, counts), end) for y_nSD, end in zip(found, ends, strict=True))

    def _of_all(self, images: Images, features: Sequence[Tensor], end_D: Tensor) -> Tensor:
        """The features of all images and their tiles, (tokens, D)."""
        return torch.cat([self._laid_out(image, y_tSD, end_D) for image, y_tSD in zip(images, features, strict=True)])

    def _laid_out(self, image: Tiles, y_tSD: Tensor, end_D: Tensor) -> Tensor:
        """The features of an image, then those of its tiles as one, with `end_D` behind its rows: (T, D)."""
        side = self.tower.per_side
        tiles = y_tSD[1:].unflatten(0, (image.rows, image.columns)).unflatten(2, (side, side))  # type: ignore[no-untyped-call]
        y_RCD = tiles.transpose(1, 2).flatten(2, 3).flatten(0, 1)
        top, left = image.borders(side)
        y_RCD = y_RCD[top : len(y_RCD) - top, left : y_RCD.shape[1] - left]
        size = self.tower.shown(image)
        if size != tuple(y_RCD.shape[:2]):
            y_RCD = interpolate(y_RCD.movedim(-1, 0)[None], size, mode="bilinear")[0].movedim(0, -1)
        ends = end_D.to(y_RCD.dtype).expand(len(y_RCD), 1, -1)
        return torch.cat([y_tSD[0], torch.cat([y_RCD, ends], 1).flatten(0, 1)])
