"""The module of towers of images of one size."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import ImageEncoderModule, Images
from anyformer.parts.images.grid_order import grid_order
from anyformer.parts.images.tower import ImageTower
from anyformer.plan import Plan


class ImageTowerModule(ImageEncoderModule):
    """Images (n, I, height, width) -> (n, T, D), T tokens for each."""

    def __init__(self, tower: ImageTower, width: int, plan: Plan, name: str) -> None:
        super().__init__(tower, width, plan, name)
        self.tower = tower

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        assert isinstance(images, Tensor), "they have one size"
        images = self.tower.filled(images)
        x_nSD = self.patches(images, None, None)
        positions = torch.arange(x_nSD.shape[1], device=x_nSD.device)[None]
        context = Context(positions, self.plan, padded=False, axes=self.tower.patches.axes(images))
        return self.features(x_nSD, context, self._read(positions[0]))

    def _read(self, positions: Tensor) -> Tensor | None:
        """Positions without the first ones, one square after the other; None: all as they stand."""
        first, side, square = self.tower.skipped, self.tower.per_side, self.tower.projector.square
        if square > 1:
            return grid_order(side, side, square, None, positions.device).patches + first
        return positions[first:] if first else None

    def placed(
        self,
        tokens_BT: Tensor,
        positions: Tensor,
        images: Images | None,
        documents: Tensor | None = None,
        state: StackState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """An image's token sees to the end of its image, any other to itself; an image ends where another token follows."""
        if images is None or self.tower.seen == "earlier":
            return None, None
        inside = tokens_BT == self.tower.token
        goes_on = torch.cat([inside[:, :-1] & inside[:, 1:], torch.zeros_like(inside[:, :1])], 1)
        index = torch.arange(inside.shape[1], device=inside.device).expand_as(tokens_BT)
        ends = torch.where(goes_on, inside.shape[1], index).flip(1).cummin(1).values.flip(1)
        return positions.expand_as(index).gather(1, ends), None
