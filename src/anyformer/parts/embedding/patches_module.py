"""The module of image patches."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from anyformer.parts.embedding.embedding_module import InputModule
from anyformer.parts.embedding.patches import Patches


class PatchesModule(InputModule):
    """(B, I, height, width) -> (B, T, D)."""

    def __init__(self, patches: Patches, width: int) -> None:
        super().__init__()
        self.size, self.frames = patches.size, patches.frames
        self.projection = nn.Linear(patches.pixels, width, bias=patches.bias)
        self.class_tokens = nn.Parameter(torch.empty(patches.class_tokens, width)) if patches.class_tokens else None

    def forward(self, given: Tensor, padding: Tensor | None, types: Tensor | None) -> Tensor:
        return self._behind(self.projection(self._cut(given)))

    def some(self, given: Tensor, padding: Tensor | None, types: Tensor | None, kept_BT: Tensor) -> Tensor:
        # Learned vectors in front are kept, and of the patches those alone are projected that are.
        patches_BNP, front = self._cut(given), 0 if self.class_tokens is None else len(self.class_tokens)
        places_BK = kept_BT[:, front:, None] - front
        return self._behind(self.projection(patches_BNP.gather(1, places_BK.expand(-1, -1, patches_BNP.shape[2]))))

    def _behind(self, x_BND: Tensor) -> Tensor:
        """The patches behind the learned vectors."""
        if self.class_tokens is None:
            return x_BND
        return torch.cat([self.class_tokens.to(x_BND.dtype).expand(x_BND.shape[0], -1, -1), x_BND], 1)

    def _cut(self, given: Tensor) -> Tensor:
        return cut(given.to(self.projection.weight.dtype), self.size, self.frames)


def pasted(patches_BTI: Tensor, channels: int, height: int, width: int) -> Tensor:
    """(B, rows * columns, I * p * p) -> (B, I, height, width): the image that `cut` cuts into these patches."""
    batch, size = patches_BTI.shape[0], math.isqrt(patches_BTI.shape[2] // channels)
    squares = patches_BTI.reshape(batch, height // size, width // size, channels, size, size)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels, height, width)


def cut(image_BIhw: Tensor, size: int, frames: int = 1) -> Tensor:
    """(B, I, rows * p, columns * p) -> (B, rows * columns, I * frames * p * p), every frame the image."""
    batch, channels, height, width = image_BIhw.shape
    squares = image_BIhw.reshape(batch, channels, height // size, size, width // size, size)
    patches = squares.permute(0, 2, 4, 1, 3, 5)[:, :, :, :, None].expand(-1, -1, -1, -1, frames, -1, -1)
    return patches.reshape(batch, -1, channels * frames * size * size)
