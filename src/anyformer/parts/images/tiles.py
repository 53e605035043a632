"""Images in tiles among the tokens of a text: LLaVA-NeXT, LLaVA-OneVision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, InputError
from anyformer.operations import Tally, Weight
from anyformer.parts.images.placeholder import Price
from anyformer.parts.images.square import SquareImages
from anyformer.parts.layers.stack import Stack
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.images.encoder_module import Images
    from anyformer.parts.images.tiles_module import TiledTowerModule

_SHRUNK_BEYOND = 1.1
"""How many times as long as it should be a side becomes before features are shrunk (LLaVA-OneVision)."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """An image and its tiles: first all of it at the tower's size, then `rows` x `columns` tiles of it, row by row.

    The tiles together show the image as large as they hold it, its sides as they were to one another, between borders of
    nothing. `height`, `width`: of the image before.
    """

    pixels: Tensor
    """(1 + rows * columns, I, image, image)."""
    rows: int
    columns: int
    height: int
    width: int

    def to(self, where: torch.device | torch.dtype | str) -> Tiles:
        """The same elsewhere, or of other numbers."""
        return Tiles(self.pixels.to(where), self.rows, self.columns, self.height, self.width)

    def borders(self, side: int) -> tuple[int, int]:
        """Rows and columns of patches that show nothing on either end, where a tile has `side` x `side` patches."""
        high, wide = self.rows * side, self.columns * side
        if self.width * high > self.height * wide:
            return (high - int(round(self.height * wide / self.width, 7))) // 2, 0
        return 0, (wide - int(round(self.width * high / self.height, 7))) // 2


class TiledTower(SquareImages):
    """y = [projector(image); rows of the projected patches of all its tiles, a learned vector behind each row].

    Borders are left out, and a deep-stack adds nothing at the learned vectors. Liu et al. 2024, "LLaVA-NeXT"
    (llava-vl.github.io/blog/2024-01-30-llava-next); Li et al. 2024, "LLaVA-OneVision" (arXiv 2408.03326), section 3.2.
    """

    kind: Literal["tiles"] = "tiles"
    most: Count | None = None
    """Tiles of whose patches an image has at most as many; with sides a tenth longer, features are interpolated."""
    grid: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (2, 2)
    """Rows and columns of the tiles of the images that costs and examples are given for."""

    @model_validator(mode="after")
    def _of_patches(self) -> TiledTower:
        patches = self.per_side**2
        if self.skipped != self.patches.class_tokens or self.projector.square > 1 or self.projector.tokens(patches) != patches:
            raise ValueError(
                f"projector: rows of tiles are rows of patches, one token for each: set skipped = {self.patches.class_tokens} "
                f"and a projector that reads positions one by one"
            )
        return self

    @property
    def tokens(self) -> int:
        rows, columns = self.grid
        high, wide = self.shrunk(rows * self.per_side, columns * self.per_side)
        return self.per_side**2 + high * (wide + 1)

    @property
    def facts(self) -> str:
        rows, columns = self.grid
        return (
            f"tiles of {self.image:,} x {self.image:,} pixels; an image of {rows} x {columns} tiles is {self.tokens:,} tokens, "
            f"of which one sees its image up to itself{self.deep_facts}"
        )

    def shrunk(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of features of so many rows and columns of patches."""
        if self.most is None:
            return rows, columns
        ratio = math.sqrt(rows * columns / (self.most * self.per_side**2))
        return (int(rows // ratio), int(columns // ratio)) if ratio > _SHRUNK_BEYOND else (rows, columns)

    def shown(self, image: Tiles) -> tuple[int, int]:
        """Rows and columns of the features of an image's tiles."""
        top, left = image.borders(self.per_side)
        return self.shrunk(image.rows * self.per_side - 2 * top, image.columns * self.per_side - 2 * left)

    def sizes(self, images: Images) -> list[int]:
        return [self.per_side**2 + rows * (columns + 1) for rows, columns in map(self.shown, images)]

    def check_images(self, images: Images) -> None:
        side = self.image
        if len(images) == 0:
            raise InputError("there is no image among images: leave them out")
        for number, image in enumerate(images):
            if not isinstance(image, Tiles) or not image.pixels.is_floating_point():
                kind = image.pixels.dtype if isinstance(image, Tiles) else type(image).__name__
                raise InputError(
                    f"images should be `Tiles` of {side} pixels a side, of real numbers, and number {number} is {kind}"
                )
            wanted = (1 + image.rows * image.columns, self.patches.channels, side, side)
            if tuple(image.pixels.shape) != wanted:
                raise InputError(f"image {number}: its tiles should have shape {wanted}, got {tuple(image.pixels.shape)}")
            if min(image.rows, image.columns, image.height, image.width) < 1 or min(self.shown(image)) < 1:
                raise InputError(
                    f"image {number}: {image.height} x {image.width} pixels in {image.rows} x {image.columns} tiles are empty"
                )

    def build(self, width: int, plan: Plan, name: str) -> TiledTowerModule:
        from anyformer.parts.images.tiles_module import TiledTowerModule

        return TiledTowerModule(self, width, plan, name)

    def cost(self, width: int, images: int, plan: Plan, price: Price = Stack.cost) -> Tally:
        rows, columns = self.grid
        newline = Tally({"newline": Weight((width,), "replicate", "embedding")})
        return super().cost(width, images * (1 + rows * columns), plan, price) + newline

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Images]:
        import torch

        count, (rows, columns) = len(tokens_BT), self.grid
        tokens, _ = super().example(tokens_BT, seed)
        generator, sides = torch.Generator().manual_seed(seed), (rows * self.image, columns * self.image)
        shape = count, 1 + rows * columns, self.patches.channels, self.image, self.image
        return tokens, tuple(Tiles(pixels, rows, columns, *sides) for pixels in torch.randn(shape, generator=generator))
