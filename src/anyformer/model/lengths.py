"""The positions that the stacks of a model compute in one call."""

from __future__ import annotations

from typing import Literal

from anyformer.operations import Shape
from anyformer.parts.attention.latents import Latents


def decoder_shape(shape: Shape, latents: Latents | None, source: Literal["attended", "prefix"]) -> Shape:
    """The decoder's part of a call: its own tokens, the latent array, or a source as a prefix and then its tokens."""
    if latents is not None:
        return Shape(batch=shape.batch, length=latents.count, source=shape.length)
    if source == "attended":
        return shape
    first = shape.past == 0
    return Shape(
        batch=shape.batch,
        length=shape.length + (shape.source if first else 0),
        past=0 if first else shape.past + shape.source,
        prefix=shape.source,
        capacity=None if shape.capacity is None else shape.capacity + shape.source,
    )
