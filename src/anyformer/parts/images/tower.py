"""Images of one size among the tokens of a text: LLaVA, Gemma 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import InputError
from anyformer.operations import Shape
from anyformer.parts.images.square import SquareImages
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.images.encoder_module import Images
    from anyformer.parts.images.tower_module import ImageTowerModule


class ImageTower(SquareImages):
    """Images (n, I, image, image), all of the tower's size, each as many tokens as any other (see `ImageEncoder`).

    LLaVA (Liu et al. 2023, arXiv 2304.08485), Gemma 3 (arXiv 2503.19786).
    """

    kind: Literal["tower"] = "tower"
    seen: Literal["earlier", "whole"] = "earlier"
    """What a token of an image sees of that image: what stands before it, or, whatever its mask says, all of it (Gemma 3)."""

    @property
    def facts(self) -> str:
        sees = "all of its image" if self.seen == "whole" else "its image up to itself"
        return f"{self.image:,} x {self.image:,} pixels, each {self.tokens:,} tokens, of which one sees {sees}{self.deep_facts}"

    def sizes(self, images: Images) -> list[int]:
        return [self.tokens] * len(images)

    def check_images(self, images: Images) -> None:
        from torch import Tensor

        wanted = f"(n, {self.patches.channels}, {self.image}, {self.image})"
        if not isinstance(images, Tensor) or not images.is_floating_point():
            kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise InputError(f"images should be a tensor of real numbers of shape {wanted}, got {kind}")
        if images.dim() != 4 or tuple(images.shape[1:]) != (self.patches.channels, self.image, self.image):
            raise InputError(f"images should have shape {wanted}, got {tuple(images.shape)}: crop or resize them")

    def build(self, width: int, plan: Plan, name: str) -> ImageTowerModule:
        from anyformer.parts.images.tower_module import ImageTowerModule

        return ImageTowerModule(self, width, plan, name)

    def ahead(self, shape: Shape) -> int:
        later = super().ahead(shape)
        return later + (shape.images * self.tokens * (self.tokens - 1) // 2 if self.seen == "whole" else 0)
