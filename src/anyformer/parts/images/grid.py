"""Images of any size among the tokens of a text, which have positions on three axes: Qwen-VL."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from anyformer.describe import Count
from anyformer.parts.call.context import Context
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder import ImageEncoder, ImageEncoderModule, Images
from anyformer.parts.images.grid_order import grid_order
from anyformer.parts.lookup import InputError
from anyformer.plan import Plan

AXES = 3
"""Time, height and width."""


class GridTower(ImageEncoder):
    """Images (I, height, width), each with its own size: as many tokens as the projector makes of its patches.

    Layers tell patches apart by row and column (rotary positions with two `axes`). In the text an image has one position in
    time, and its rows and columns count from there on (M-RoPE): a token is at (t, t + row, t + column), and the text behind an
    image of r x c tokens goes on at t + max(r, c). Wang et al. 2024, "Qwen2-VL" (arXiv 2409.12191), section 2.1.
    """

    kind: Literal["grid"] = "grid"
    window: Annotated[int, Field(ge=1)] | None = None
    """Patches along the side of windows, whose patches stand one after the other: `Chunk` of its square is a mask of
    windows (Qwen2.5-VL, arXiv 2502.13923)."""
    image: Count = 448

    @model_validator(mode="after")
    def _fits_together(self) -> GridTower:
        if self.image % self.unit:
            raise ValueError(f"images of {self.image} pixels do not divide into squares of {self.unit}")
        if self.window is not None and self.window % self.projector.square:
            raise ValueError(f"windows of {self.window} patches do not divide into squares of {self.projector.square}")
        if self.patches.class_tokens:
            raise ValueError(f"patches.class_tokens = {self.patches.class_tokens}: a grid has none")
        if self.stack.max_length is not None:
            raise ValueError("stack.position: images of any size have no table of positions; give its attention rotary axes")
        self.check_fields()
        return self

    @property
    def unit(self) -> int:
        """Pixels of which the sides of an image are multiples."""
        return self.patches.size * self.projector.square

    @property
    def facts(self) -> str:
        return (
            f"sides of any multiple of {self.unit} pixels; one of {self.image:,} x {self.image:,} is {self.tokens:,} tokens, "
            f"of which one sees its image up to itself"
        )

    def grid(self, image: Tensor) -> tuple[int, int]:
        """Rows and columns of an image's tokens."""
        return image.shape[-2] // self.unit, image.shape[-1] // self.unit

    def sizes(self, images: Images) -> list[int]:
        return [rows * columns for rows, columns in map(self.grid, images)]

    def check_images(self, images: Images) -> None:
        wanted = f"({self.patches.channels}, height, width) of multiples of {self.unit} pixels"
        if len(images) == 0:
            raise InputError("there is no image among images: leave them out")
        for number, image in enumerate(images):
            if not isinstance(image, Tensor) or not image.is_floating_point():
                kind = image.dtype if isinstance(image, Tensor) else type(image).__name__
                raise InputError(f"images should be tensors of real numbers {wanted}, and number {number} is {kind}")
            fits = image.dim() == 3 and image.shape[0] == self.patches.channels and 0 not in image.shape
            if not fits or image.shape[1] % self.unit or image.shape[2] % self.unit:
                raise InputError(
                    f"images should have shape {wanted}, and number {number} has {tuple(image.shape)}: resize or crop it"
                )

    def build(self, width: int, plan: Plan, name: str) -> GridTowerModule:
        return GridTowerModule(self, width, plan, name)


class GridTowerModule(ImageEncoderModule):
    """Images (I, height, width) -> (tokens of all, D). Those of one size are computed together."""

    def __init__(self, tower: GridTower, width: int, plan: Plan, name: str) -> None:
        super().__init__(tower, width, plan, name)
        self.tower = tower

    def forward(self, images: Images) -> Tensor:
        sizes = [tuple(image.shape) for image in images]
        features: dict[int, Tensor] = {}
        for size in dict.fromkeys(sizes):
            alike = [number for number, own in enumerate(sizes) if own == size]
            features |= zip(alike, self._of_one_size(torch.stack([images[number] for number in alike])), strict=True)
        return torch.cat([features[number] for number in range(len(sizes))])

    def _of_one_size(self, images: Tensor) -> Tensor:
        """(n, I, height, width) -> (n, tokens, D)."""
        size = self.tower.patches.size
        order = grid_order(
            images.shape[2] // size, images.shape[3] // size, self.tower.projector.square, self.tower.window, images.device
        )
        x_nSD = self.patches(images, None, None)[:, order.patches]
        context = Context(order.positions[None], self.plan, aligned=order.filled, padded=False, axes=order.axes[:, None])
        y_nTD: Tensor = self.projector(self.stack(x_nSD, context))
        return y_nTD[:, order.squares]

    def placed(
        self,
        tokens_BT: Tensor,
        positions: Tensor,
        images: Images | None,
        documents: Tensor | None = None,
        state: StackState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """The k-th token of images has its place in its image; what an image advances less than its tokens goes off later."""
        offset = None if state is None else state.offset
        if state is not None and offset is None:
            offset = state.offset = torch.zeros(len(tokens_BT), dtype=torch.int64, device=tokens_BT.device)
        if images is None:
            return None, None if offset is None else (positions + offset[:, None])[None]
        inside = tokens_BT == self.tower.token
        places, advances = (table.to(tokens_BT.device) for table in self._places(images))
        number = (inside.flatten().cumsum(0) - 1).clamp(min=0).view_as(tokens_BT)
        more = torch.where(inside, advances[number], 0)
        before = more.cumsum(1) - more
        if documents is not None:
            starts = torch.ones_like(inside)
            starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
            index = torch.arange(inside.shape[1], device=inside.device)
            before = before - before.gather(1, torch.where(starts, index, 0).cummax(1).values)
        if state is not None and offset is not None:
            before, state.offset = before + offset[:, None], offset + more.sum(1)
        return None, positions + before + torch.where(inside, places[:, number], 0)

    def _places(self, images: Images) -> tuple[Tensor, Tensor]:
        """Of the tokens of all images their (time, row, column), (3, N), and what each advances the text beyond one, (N,)."""
        places, advances = [], []
        for rows, columns in map(self.tower.grid, images):
            number = torch.arange(rows * columns)
            places.append(torch.stack([torch.zeros_like(number), number // columns, number % columns]))
            advances.append(torch.where(number < rows * columns - 1, -1, max(rows, columns) - 1))
        return torch.cat(places, 1), torch.cat(advances)
