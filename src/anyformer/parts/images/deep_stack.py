"""Features of a tower's inner layers, added to the first layers of the text."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from anyformer.describe import Value
from anyformer.parts.images.projector import Projector


class DeepStack(Value):
    """x <- x + projector_k(h) at the tokens of images, behind layer k of the text; h: the stream behind the tower's layer
    `layers[k]`.

    Meng et al. 2024, "DeepStack: Deeply Stacking Visual Tokens is Surprisingly Simple and Effective for LMMs" (arXiv
    2406.04334); features of several layers of the tower: Qwen3-VL (arXiv 2511.21631), section 2.
    """

    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    """Numbers of layers of the tower, from 0; the k-th is for layer k of the text."""
    projector: Projector
    """The description of every projector; each has its own weights."""

    @model_validator(mode="after")
    def _each_once(self) -> DeepStack:
        twins = sorted({layer for layer in self.layers if self.layers.count(layer) > 1})
        if twins:
            raise ValueError(f"layers names layer {twins[0]} more than once: name every layer once")
        return self
