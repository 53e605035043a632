"""Tiny inputs for any architecture: tokens, features or images, a source and a target, rows with padding."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.model import Architecture
from anyformer.operations import Shape

B, T, S = 2, 11, 7
"""Rows, positions of the one input or of the target, positions of the source."""


def tokens(architecture: Architecture, rows: int = B, length: int = T, seed: int = 0) -> Tensor:
    """Random tokens (B, T) of a model that reads tokens."""
    vocab = architecture.embedding.symbols
    assert vocab is not None, f"the input is {architecture.embedding.kind}, not tokens"
    return torch.randint(0, vocab, (rows, length), generator=torch.Generator().manual_seed(seed))


def inputs(architecture: Architecture, rows: int = B, length: int = T) -> tuple[Tensor, ...]:
    """The inputs of the model: one, or a source of S positions and a target of `length`."""
    if not architecture.two_inputs:
        return (architecture.embedding.example(rows, length),)
    return architecture.embedding.example(rows, S, seed=1), architecture.output_embedding.example(rows, length)


def shape(architecture: Architecture, length: int = T, capacity: int | None = None) -> Shape:
    """The sizes of a call with `inputs`."""
    return Shape(batch=B, length=length, source=S if architecture.two_inputs else 0, capacity=capacity)


def padded(x: Tensor, left: int, right: int) -> tuple[Tensor, Tensor]:
    """`x` with `left` and `right` padding tokens around each row, and the mask of the padding."""
    padding = torch.ones(len(x), left + x.shape[1] + right, dtype=torch.bool)
    padding[:, left : left + x.shape[1]] = False
    wide = torch.full_like(padding, 5, dtype=torch.int64)
    wide[:, left : left + x.shape[1]] = x
    return wide, padding
