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
        x_BTD: Tensor = self.projection(cut(given.to(self.projection.weight.dtype), self.size, self.frames))
        if self.class_tokens is not None:
            x_BTD = torch.cat([self.class_tokens.to(x_BTD.dtype).expand(len(x_BTD), -1, -1), x_BTD], 1)
        return x_BTD


def pasted(patches_BTI: Tensor, channels: int, height: int, width: int) -> Tensor:
    """(B, rows * columns, I * p * p) -> (B, I, height, width): the image that `cut` cuts into these patches."""
    batch, size = len(patches_BTI), math.isqrt(patches_BTI.shape[2] // channels)
    squares = patches_BTI.reshape(batch, height // size, width // size, channels, size, size)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels, height, width)


def cut(image_BIhw: Tensor, size: int, frames: int = 1) -> Tensor:
    """(B, I, rows * p, columns * p) -> (B, rows * columns, I * frames * p * p), every frame the image."""
    batch, channels, height, width = image_BIhw.shape
    squares = image_BIhw.reshape(batch, channels, height // size, size, width // size, size)
    patches = squares.permute(0, 2, 4, 1, 3, 5)[:, :, :, :, None].expand(-1, -1, -1, -1, frames, -1, -1)
    return patches.reshape(batch, -1, channels * frames * size * size)
