"""Made-up inputs of an architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from anyformer.model import Architecture
from anyformer.operations import Shape


def examples(architecture: Architecture, shape: Shape) -> Iterator[Tensor]:
    """Inputs of a shape: the sequence, or the source and the target."""
    if not architecture.two_inputs:
        yield architecture.embedding.example(shape.batch, shape.length)
        return
    yield architecture.embedding.example(shape.batch, shape.source, seed=1)
    yield architecture.output_embedding.example(shape.batch, shape.length)


def without_numbers(architecture: Architecture, shape: Shape) -> tuple[list[Tensor], dict[str, Any]]:
    """The inputs of a call on the meta device, and its options: an image or a sound of every row, if the shape has one each."""
    inputs, options = [x.to("meta") for x in examples(architecture, shape)], dict[str, Any]()
    seen, heard = architecture.images, architecture.audio
    if shape.images and seen is not None:
        tokens, images = seen.example(inputs[0][:, : shape.length - seen.tokens])
        inputs[0] = tokens
        options["images"] = images.to("meta") if isinstance(images, Tensor) else tuple(image.to("meta") for image in images)
    if shape.audio and heard is not None:
        heard = heard.but(sound=shape.frames) if shape.frames else heard
        tokens, audio = heard.example(inputs[0][:, : shape.length - heard.tokens])
        inputs[0], options["audio"] = tokens, audio.to("meta")
    return inputs, options
