"""The positions that the stacks of a model compute in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from anyformer.operations import Shape
from anyformer.parts.attention.latents import Latents


def decoder_shape(shape: Shape, latents: Latents | None, source: Literal["attended", "prefix"]) -> Shape:
    """The decoder's part of a call: its own tokens, the latent array, or a source as a prefix and then its tokens."""
    if latents is not None:
        return Shape(batch=shape.batch, length=latents.count, source=shape.length)
    if source == "attended":
        return shape
    return replace(behind(shape, shape.source), source=0, prefix=shape.source)


def behind(shape: Shape, first: int) -> Shape:
    """A call whose text has `first` positions in front of it, computed with its first chunk; a prefix includes them."""
    if first == 0:
        return shape
    begins = shape.past == 0
    return replace(
        shape,
        length=shape.length + (first if begins else 0),
        past=0 if begins else shape.past + first,
        prefix=shape.prefix and shape.prefix + first,
        capacity=None if shape.capacity is None else shape.capacity + first,
    )
