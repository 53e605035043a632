"""Images of one size among the tokens of a text: LLaVA, Gemma 3."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from anyformer.operations import Shape
from anyformer.parts.call.context import Context
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.images.encoder import ImageEncoder, ImageEncoderModule, Images
from anyformer.parts.lookup import InputError
from anyformer.plan import Plan


class ImageTower(ImageEncoder):
    """Images (n, I, image, image), all of the tower's size, each as many tokens as any other (see `ImageEncoder`).

    LLaVA (Liu et al. 2023, arXiv 2304.08485), Gemma 3 (arXiv 2503.19786).
    """

    kind: Literal["tower"] = "tower"
    skipped: Annotated[int, Field(ge=0)] = 0
    """First positions of an image that the projector does not read: a class token (LLaVA)."""
    seen: Literal["earlier", "whole"] = "earlier"
    """What a token of an image sees of that image: what stands before it, or, whatever its mask says, all of it (Gemma 3)."""

    @model_validator(mode="after")
    def _fits_together(self) -> ImageTower:
        if self.image % self.patches.size:
            raise ValueError(f"images of {self.image} pixels do not divide into patches of {self.patches.size}")
        if self.skipped >= self.positions:
            raise ValueError(f"skips {self.skipped} positions, and an image has {self.positions}")
        longest = self.stack.max_length
        if longest is not None and longest < self.positions:
            raise ValueError(f"an image has {self.positions} positions, and the position table of the tower ends at {longest}")
        if self.projector.square > 1:
            raise ValueError("projector: reads patches square by square, as a tower of kind 'grid' orders them")
        self.check_fields()
        return self

    @property
    def unread(self) -> int:
        return self.skipped

    @property
    def facts(self) -> str:
        sees = "all of its image" if self.seen == "whole" else "its image up to itself"
        return f"{self.image:,} x {self.image:,} pixels, each {self.tokens:,} tokens, of which one sees {sees}"

    def sizes(self, images: Images) -> list[int]:
        return [self.tokens] * len(images)

    def check_images(self, images: Images) -> None:
        wanted = f"(n, {self.patches.channels}, {self.image}, {self.image})"
        if not isinstance(images, Tensor) or not images.is_floating_point():
            kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise InputError(f"images should be a tensor of real numbers of shape {wanted}, got {kind}")
        if images.dim() != 4 or tuple(images.shape[1:]) != (self.patches.channels, self.image, self.image):
            raise InputError(f"images should have shape {wanted}, got {tuple(images.shape)}: crop or resize them")

    def build(self, width: int, plan: Plan, name: str) -> ImageTowerModule:
        return ImageTowerModule(self, width, plan, name)

    def ahead(self, shape: Shape) -> int:
        later = super().ahead(shape)
        return later + (shape.images * self.tokens * (self.tokens - 1) // 2 if self.seen == "whole" else 0)


class ImageTowerModule(ImageEncoderModule):
    """Images (n, I, height, width) -> (n, T, D), T tokens for each."""

    def __init__(self, tower: ImageTower, width: int, plan: Plan, name: str) -> None:
        super().__init__(tower, width, plan, name)
        self.tower = tower

    def forward(self, images: Images) -> Tensor:
        x_nSD = self.patches(images, None, None)
        positions = torch.arange(x_nSD.shape[1], device=x_nSD.device)[None]
        x_nSD = self.stack(x_nSD, Context(positions, self.plan, padded=False))
        return self.projector(x_nSD[:, self.tower.skipped :])  # type: ignore[no-any-return]

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
