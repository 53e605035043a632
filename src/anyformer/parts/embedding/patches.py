"""Images as positions: one per square patch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from anyformer.describe import Count, InputError
from anyformer.describe.registry import with_kind
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.embedding.coordinates import Coordinates
from anyformer.parts.embedding.embedding import ImageCells, Input
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.embedding.patches_module import PatchesModule


class Patches(Input):
    """x_n = W patch_n + b: an image (B, I, height, width) cut into squares of p x p, row by row (ViT, arXiv 2010.11929).

    W: (D, I * p * p), a patch's pixels in the order channel, row, column, as in a convolution of stride p. Learned vectors may
    stand in front: ViT's class token, registers (arXiv 2309.16588). The image's size is data of a call.
    """

    kind: Literal["patches"] = "patches"
    rank: ClassVar[int] = 4
    size: Count
    """p, pixels of a patch's side."""
    channels: Count = 3
    """I."""
    frames: Count = 1
    """Frames of a film that a patch covers: W is (D, I * frames * p * p), and an image is each frame (Qwen2-VL, 2409.12191)."""
    class_tokens: Annotated[int, Field(ge=0)] = 0
    """Learned vectors before the patches."""
    bias: bool = True
    coordinates: Annotated[Coordinates | None, BeforeValidator(with_kind("centred"))] = None
    """Where rotary positions along two axes take a patch to be; None: its number, as all positions."""

    def sketch(self, width: int) -> Sketch:
        pixels = self.pixels
        extra = [f"{self.class_tokens} learned vector{'s' * (self.class_tokens > 1)} in front"] if self.class_tokens else []
        return Sketch(f"Patches of {self.size} × {self.size}", (f"{number(pixels)} → {number(width)}", *extra))

    @property
    def pixels(self) -> int:
        """Numbers of a patch."""
        return self.channels * self.frames * self.size**2

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        if padding is not None:
            raise InputError(f"{name} are images, and images have no padding: those of one call share one size")
        if given.dim() != 4 or given.shape[1] != self.channels:
            raise InputError(f"{name} should be images (B, {self.channels}, height, width), got {tuple(given.shape)}")
        height, width = given.shape[2:]
        if height % self.size or width % self.size:
            raise InputError(f"{name} of {height} x {width} pixels do not divide into patches of {self.size}: crop or resize")
        return self.class_tokens + (height // self.size) * (width // self.size)

    @property
    def cells(self) -> ImageCells:
        return ImageCells(self.size, self.channels, self.class_tokens)

    @property
    def has_axes(self) -> bool:
        return self.coordinates is not None

    def axes(self, given: Tensor) -> Tensor | None:
        import torch.nn.functional as F

        if self.coordinates is None:
            return None
        grid = self.coordinates.grid(given.shape[-2] // self.size, given.shape[-1] // self.size, given.device)
        # Learned vectors in front do not turn.
        return F.pad(grid, (self.class_tokens, 0))[:, None]

    def build(self, width: int) -> PatchesModule:
        from anyformer.parts.embedding.patches_module import PatchesModule

        return PatchesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        patches = batch * max(length - self.class_tokens, 0)
        parts = matrix("projection", self.pixels, width, patches, role="column", bias=self.bias, constant=True)
        if not self.class_tokens:
            return parts
        return parts + Tally({"class_tokens": Weight((self.class_tokens, width), "replicate", "embedding")})

    def published(self, batch: int, longest: int, seed: int = 0) -> Tensor:
        import torch

        side = max(math.isqrt(max(longest - self.class_tokens, 1)), 1) * self.size
        return torch.randn(batch, self.channels, side, side, generator=torch.Generator().manual_seed(seed))

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        """Random images with a single row of patches."""
        import torch

        shape = batch, self.channels, self.size, self.size * max(length - self.class_tokens, 1)
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)
