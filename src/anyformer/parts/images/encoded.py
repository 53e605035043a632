"""Images as an input: encoded by a stack of a width of its own, which may not be that of the text that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from anyformer.describe import Count, InputError
from anyformer.operations import Shape, Tally, matrix, total
from anyformer.parts.embedding.embedding import Input
from anyformer.parts.embedding.patches import Patches
from anyformer.parts.layers.stack import Stack
from anyformer.parts.sketch import Sketch, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.images.encoded_module import EncodedImagesModule


class EncodedImages(Input):
    """y = stack(patches(image)), (B, T, I), or with `projected` y W^T + b, W (D, I): (B, T, D).

    An encoder of I = `width` features before a decoder of D: without a projection only cross-attention with
    `source_width` = I can read it (TrOCR, Li et al. 2021, arXiv 2109.10282). Where I = D, an architecture's `encoder` says the
    same. Checkpointing keeps what its layers save.
    """

    kind: Literal["encoded_images"] = "encoded_images"
    rank: ClassVar[int] = 4
    width: Count
    """Features of the residual stream of its stack."""
    patches: Patches
    stack: Stack
    projected: bool = False
    """Whether a linear map with a bias gives D features."""

    @model_validator(mode="after")
    def _fits_together(self) -> EncodedImages:
        if self.stack.reads_tokens:
            raise ValueError("stack: a layer looks at the tokens themselves, and the positions of an image are none")
        self.stack.check(self.width, self.width, "embedding.stack")
        return self

    def sketch(self, width: int) -> Sketch:
        facts = [f"patches of {self.patches.size} × {self.patches.size}", f"{self.stack.depth} layers of {number(self.width)}"]
        facts += [f"→ {number(width)}"] if self.projected else []
        return Sketch("Encoder of images", tuple(facts))

    def fitting(self, width: int) -> str:
        return "project them (embedding.projected), or give the decoder cross-attention that reads them and no encoder"

    def given(self, width: int) -> int:
        return width if self.projected else self.width

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        length, longest = self.patches.check(name, given, padding), self.stack.max_length
        if longest is not None and length > longest:
            raise InputError(
                f"{name} of {given.shape[2]} x {given.shape[3]} pixels have {length} positions, and the position table of the "
                f"encoder ends at {longest}: crop or resize"
            )
        return length

    def built(self, width: int, plan: Plan, name: str) -> EncodedImagesModule:
        from anyformer.parts.images.encoded_module import EncodedImagesModule

        return EncodedImagesModule(self, width, plan, name)

    def build(self, width: int) -> EncodedImagesModule:
        return self.built(width, Plan(), "embedding")

    def cost(self, width: int, batch: int, length: int) -> Tally:
        return self.priced(width, batch, length, Plan(), Stack.cost)

    def priced(self, width: int, batch: int, length: int, plan: Plan, price: Any) -> Tally:
        rows = Shape(batch=batch, length=max(length, 1))
        parts = {
            "patches": self.patches.cost(self.width, batch, length),
            "stack": price(self.stack, self.width, self.width, rows, plan),
        }
        return encoder_work(parts, batch * length, self.width, width if self.projected else None)

    @property
    def longest(self) -> int | None:
        return self.stack.max_length

    def published(self, batch: int, longest: int, seed: int = 0) -> Tensor:
        return self.patches.published(batch, longest, seed)

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        return self.patches.example(batch, length, device, seed)


def encoder_work(parts: Mapping[str, Tally], rows: int, features: int, projected: int | None) -> Tally:
    """The work of an encoder that is an input, by its parts: it has no decode state; `projected`: D of the map behind it."""
    tally = total(parts).without("state", "limits")
    tally = (tally if rows else tally.without("work")).as_parts()
    if projected is None:
        return tally
    return tally + matrix("projection", features, projected, rows, role="column", bias=True)
