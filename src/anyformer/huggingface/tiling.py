"""Images cut into tiles before they become pixels: LLaVA-NeXT, LLaVA-OneVision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.parts import Tiles

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Tiling:
    """An image at `side` x `side` pixels, and the tiles of that side of the same image at the grid that holds most of it."""

    grids: tuple[tuple[int, int], ...]
    """Heights and widths in pixels among which one is taken."""
    side: int
    """Pixels of a tile's side."""
    resample: int

    def best(self, height: int, width: int) -> tuple[int, int]:
        """The grid in which an image keeps the most pixels, and of several the smallest; the first of equals."""

        def kept(grid: tuple[int, int]) -> tuple[int, int]:
            scale = min(grid[1] / width, grid[0] / height)
            pixels = min(int(width * scale) * int(height * scale), height * width)
            return pixels, pixels - grid[0] * grid[1]

        return max(self.grids, key=kept)

    def __call__(self, image: Image, pixels: Callable[[Image], Tensor]) -> Tiles:
        """The tiles of an upright RGB image; `pixels`: of a piece of it."""
        high, wide = self.best(image.height, image.width)
        across, down = wide / image.width, high / image.height
        if across < down:
            size = wide, min(math.ceil(image.height * across), high)
        else:
            size = min(math.ceil(image.width * down), wide), high
        left, top = (wide - size[0]) // 2, (high - size[1]) // 2
        # What lies outside an image is black in a crop of it.
        grid = image.resize(size, self.resample).crop((-left, -top, wide - left, high - top))
        rows, columns = high // self.side, wide // self.side
        corners = [(column * self.side, row * self.side) for row in range(rows) for column in range(columns)]
        pieces = [grid.crop((x, y, x + self.side, y + self.side)) for x, y in corners]
        shown = [pixels(piece) for piece in (image.resize((self.side, self.side), self.resample), *pieces)]
        return Tiles(torch.stack(shown), rows, columns, image.height, image.width)
