"""The module of images that are encoded at a width of their own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import TakesNoise
from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.images.encoded import EncodedImages
from anyformer.plan import Plan


class EncodedImagesModule(InputModule, TakesNoise):
    """(B, I, height, width) -> (B, T, features that it gives)."""

    def __init__(self, part: EncodedImages, width: int, plan: Plan, name: str) -> None:
        super().__init__()
        self.part, self.plan = part, plan.but(checkpointing="none")
        self.patches = part.patches.build(part.width)
        self.stack = part.stack.build(part.width, part.width, self.plan, f"{name}.stack")
        self.projection = nn.Linear(part.width, width) if part.projected else nn.Identity()

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        x_BTI = self.patches(given, padding, types)
        positions = torch.arange(x_BTI.shape[1], device=x_BTI.device)[None]
        context = Context(positions, self.plan, padded=False, axes=self.part.patches.axes(given), noise=self.noise)
        return self.projection(self.stack(x_BTI, context))  # type: ignore[no-any-return]
