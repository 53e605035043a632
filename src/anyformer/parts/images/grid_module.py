"""The module of towers of images of any size."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder_module import ImageEncoderModule, Images
from anyformer.parts.images.grid import GridTower
from anyformer.parts.images.grid_order import grid_order
from anyformer.plan import Plan


class GridTowerModule(ImageEncoderModule):
    """Images (I, height, width) -> (tokens of all, D). Those of one size are computed together."""

    def __init__(self, tower: GridTower, width: int, plan: Plan, name: str) -> None:
        super().__init__(tower, width, plan, name)
        self.tower = tower
        self.patch_norm = tower.patch_norm.build(tower.width) if tower.patch_norm else nn.Identity()
        self.position = tower.position.build(tower.width) if tower.position else None

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        sizes = [tuple(image.shape) for image in images]
        features: dict[int, tuple[Tensor, ...]] = {}
        for size in dict.fromkeys(sizes):
            alike = [number for number, own in enumerate(sizes) if own == size]
            found = self._of_one_size(torch.stack([images[number] for number in alike]))
            features |= zip(alike, zip(*found, strict=True), strict=True)
        return tuple(torch.cat(each) for each in zip(*(features[number] for number in range(len(sizes))), strict=True))

    def _of_one_size(self, images: Tensor) -> tuple[Tensor, ...]:
        """(n, I, height, width) -> (n, tokens, D), for the embedding and each layer of the deep-stack."""
        size = self.tower.patches.size
        rows, columns = images.shape[2] // size, images.shape[3] // size
        square = self.tower.projector.square
        squares = grid_order(rows, columns, square, self.tower.window, images.device)
        order = squares if self.tower.sequence == "squares" else grid_order(rows, columns, 1, None, images.device)
        x_nSD = self.patch_norm(self.patches(images, None, None))
        if self.position is not None:
            x_nSD = x_nSD + self.position(rows, columns).to(x_nSD.dtype)
        x_nSD = x_nSD[:, order.patches]
        context = Context(order.positions[None], self.plan, aligned=order.filled, padded=False, axes=order.axes[:, None])
        gathered = None if order is squares else squares.patches
        return tuple(y_nTD[:, squares.squares] for y_nTD in self.features(x_nSD, context, gathered))

    def placed(
        self,
        tokens_BT: Tensor,
        positions: Tensor,
        images: Images | None,
        documents: Tensor | None = None,
        state: StackState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """The k-th token of images has its place in its image; what an image advances less than its tokens goes off later."""
        if self.tower.counted == "line":
            return None, None
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
