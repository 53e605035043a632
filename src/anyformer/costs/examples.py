"""Made-up inputs of an architecture."""

from __future__ import annotations

from collections.abc import Iterator

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
