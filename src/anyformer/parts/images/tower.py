"""Images among the tokens of a text: an encoder of patches, whose projected features replace the tokens that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.describe import Count, UserError
from anyformer.operations import Shape, Tally, total
from anyformer.parts.call.context import Context
from anyformer.parts.embedding.embedding import InputModule
from anyformer.parts.embedding.patches import Patches
from anyformer.parts.images.projector import Projector
from anyformer.parts.layers.stack import Stack
from anyformer.parts.lookup import InputError
from anyformer.parts.sketch import Drawn
from anyformer.plan import Plan

Price = Callable[[Stack, int, int, Shape, Plan], Tally]
"""`Stack.cost`, or `Stack.folded_cost`."""


class ImageTower(Drawn):
    """y = projector(stack(patches(image))): the embedding of the k-th `token` in the rows of a batch is the k-th row of y.

    Images (n, I, image, image) come in the order in which their tokens stand in the rows, one row after the other. An image
    of S positions takes as many tokens as the projector makes of them. LLaVA (Liu et al. 2023, arXiv 2304.08485), Gemma 3
    (arXiv 2503.19786). A call without images is that of the text model alone.
    """

    token: Annotated[int, Field(ge=0)]
    """The token whose embedding is replaced; the table need not have a row for it."""
    image: Count
    """Pixels of an image's side."""
    width: Count
    """Features of the tower's residual stream."""
    patches: Patches
    stack: Stack
    skipped: Annotated[int, Field(ge=0)] = 0
    """First positions of an image that the projector does not read: a class token (LLaVA)."""
    projector: Projector
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
        if self.stack.reads_tokens:
            raise ValueError("stack: a layer looks at the tokens themselves, and the positions of an image are none")
        self.stack.check(self.width, self.width, "images.stack")
        self.projector.tokens(self.positions - self.skipped)
        return self

    @property
    def positions(self) -> int:
        """S, the positions of an image in the tower."""
        return self.patches.class_tokens + (self.image // self.patches.size) ** 2

    @property
    def tokens(self) -> int:
        """The tokens of the text that an image takes."""
        return self.projector.tokens(self.positions - self.skipped)

    def check(self, images: Tensor, tokens_BT: Tensor) -> None:
        """Refuse images of another size, or another number of them than the tokens ask for, with an `InputError`."""
        wanted = f"(n, {self.patches.channels}, {self.image}, {self.image})"
        if not isinstance(images, Tensor) or not images.is_floating_point():
            kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise InputError(f"images should be a tensor of real numbers of shape {wanted}, got {kind}")
        if images.dim() != 4 or tuple(images.shape[1:]) != (self.patches.channels, self.image, self.image):
            raise InputError(f"images should have shape {wanted}, got {tuple(images.shape)}: crop or resize them")
        if tokens_BT.is_meta or torch.compiler.is_compiling():
            return
        found, needed = int((tokens_BT == self.token).sum()), len(images) * self.tokens
        if found != needed:
            raise InputError(
                f"{len(images)} images take {needed} tokens {self.token}, {self.tokens} each, and the text has {found}: "
                f"write {self.tokens} of them for every image"
            )

    def example(self, tokens_BT: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
        """The rows with a random image behind each first token, and the images, for measurements and trials."""
        rows, generator = len(tokens_BT), torch.Generator().manual_seed(seed)
        shown = tokens_BT.new_full((rows, self.tokens), self.token)
        images = torch.randn(rows, self.patches.channels, self.image, self.image, generator=generator)
        return torch.cat([tokens_BT[:, :1], shown, tokens_BT[:, 1:]], 1), images

    def build(self, width: int, plan: Plan, name: str) -> ImageTowerModule:
        return ImageTowerModule(self, width, plan, name)

    def cost(self, width: int, images: int, plan: Plan, price: Price = Stack.cost) -> Tally:
        """Its weights, and the work of encoding `images` images for a text of D = `width`."""
        S, count = self.positions, max(images, 1)
        parts = {
            "patches": self.patches.cost(self.width, count, S),
            "stack": price(self.stack, self.width, self.width, Shape(batch=count, length=S), plan),
            "projector": self.projector.cost(self.width, width, count, S - self.skipped),
        }
        tally = total(parts).without("state", "limits").as_parts()
        return tally if images else tally.without("work")

    def ahead(self, shape: Shape) -> int:
        """Pairs of a query and a later key that the images of one row allow; `UserError` if they are longer than the text."""
        if shape.images * self.tokens > shape.length:
            raise UserError(
                f"{shape.images} images take {shape.images * self.tokens} tokens of a text, which has {shape.length}"
            )
        return shape.images * self.tokens * (self.tokens - 1) // 2 if self.seen == "whole" else 0


class ImageTowerModule(nn.Module):
    """Images (n, I, height, width) -> (n, T, D), T tokens for each."""

    def __init__(self, tower: ImageTower, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.tower, self.plan = tower, plan
        self.patches = tower.patches.build(tower.width)
        self.stack = tower.stack.build(tower.width, tower.width, plan, f"{name}.stack")
        self.projector = tower.projector.build(tower.width, width)

    def forward(self, images: Tensor) -> Tensor:
        x_nSD = self.patches(images, None, None)
        positions = torch.arange(x_nSD.shape[1], device=x_nSD.device)[None]
        x_nSD = self.stack(x_nSD, Context(positions, self.plan, padded=False))
        return self.projector(x_nSD[:, self.tower.skipped :])  # type: ignore[no-any-return]

    def among(
        self, text: InputModule, tokens_BT: Tensor, images: Tensor, padding: Tensor | None, types: Tensor | None
    ) -> Tensor:
        """The embeddings (B, T, D) that `text` gives of the tokens, with those of the images at theirs."""
        inside = tokens_BT == self.tower.token
        x_BTD: Tensor = text(tokens_BT.masked_fill(inside, 0), padding, types)
        return x_BTD.masked_scatter(inside[:, :, None], self(images).to(x_BTD.dtype))

    def until(self, tokens_BT: Tensor, positions: Tensor) -> Tensor | None:
        """The last position that each query sees: of an image's token the end of its image, else its own, (B, T).

        None where masks decide. An image ends where another token than its own follows.
        """
        if self.tower.seen == "earlier":
            return None
        inside = tokens_BT == self.tower.token
        goes_on = torch.cat([inside[:, :-1] & inside[:, 1:], torch.zeros_like(inside[:, :1])], 1)
        index = torch.arange(inside.shape[1], device=inside.device).expand_as(tokens_BT)
        ends = torch.where(goes_on, inside.shape[1], index).flip(1).cummin(1).values.flip(1)
        return positions.expand_as(index).gather(1, ends)
