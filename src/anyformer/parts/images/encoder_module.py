"""The base module of encoders of images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import behind
from anyformer.parts.call.stack_state import StackState
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.plan import Plan

Images = Tensor | tuple[Any, ...]
"""Images of one size, (n, I, height, width); or each with its own, (I, height, width); or in tiles (`Tiles`)."""


class ImageEncoderModule(nn.Module):
    """Images -> the embeddings of their tokens, one image after the other: (n, T, D), or (tokens of all, D).

    With a deep-stack, those for the text's first layers follow, of the same shape each.
    """

    def __init__(self, encoder: ImageEncoder, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.token, self.plan = encoder.token, plan
        self.patches = encoder.patches.build(encoder.width)
        self.stack = encoder.stack.build(encoder.width, encoder.width, plan, f"{name}.stack")
        self.projector = encoder.projector.build(encoder.features, width)
        deep = encoder.deep
        self.joined, self.taken = encoder.joined, () if deep is None else deep.layers
        self.deep = None if deep is None else nn.ModuleList(deep.projector.build(encoder.width, width) for _ in deep.layers)

    def forward(self, images: Images) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def features(self, x_nSD: Tensor, context: Context, read: Tensor | None) -> tuple[Tensor, ...]:
        """Patches (n, S, D) of images of one size -> the embeddings of their tokens, then those for the text's layers.

        `read`: the numbers of the positions that projectors read, in order; None: all as they stand.
        """
        context = replace(context, tapped=frozenset(self.taken + self.joined))
        y_nSD = self.stack(x_nSD, context)
        inner = [context.shared[None, behind(layer)] for layer in self.taken]
        if self.joined:
            y_nSD = torch.cat([context.shared[None, behind(layer)] for layer in self.joined], -1)
        projectors = (self.projector, *(self.deep or ()))
        seen = (x if read is None else x[:, read] for x in (y_nSD, *inner))
        return tuple(project(x) for project, x in zip(projectors, seen, strict=True))

    def among(
        self, text: InputModule, tokens_BT: Tensor, images: Images, padding: Tensor | None, types: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The embeddings (B, T, D) that `text` gives of the tokens, with those of the images at theirs; and what is added
        behind the text's first layers, of the same shape."""
        inside = tokens_BT == self.token
        x_BTD: Tensor = text(tokens_BT.masked_fill(inside, 0), padding, types)
        first, *deep = self(images)
        whole = x_BTD.masked_scatter(inside[:, :, None], first.to(x_BTD.dtype))
        none = torch.zeros_like(x_BTD)
        return whole, tuple(none.masked_scatter(inside[:, :, None], each.to(x_BTD.dtype)) for each in deep)

    def placed(
        self,
        tokens_BT: Tensor,
        positions: Tensor,
        images: Images | None,
        documents: Tensor | None = None,
        state: StackState | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """`Context.until` and `Context.axes` of a text with these images, at positions counted one by one (B or 1, T).

        None where masks decide, and where a token of an image has one position, as those of text. `state`: of the text before,
        whose `offset` moves on.
        """
        return None, None
