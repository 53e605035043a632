"""How llama.cpp spells an architecture: names of tensors and what its converter did to their values, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from anyformer.huggingface.gguf.keys import GgufMetadata

Change = Callable[[Tensor, GgufMetadata], Tensor]
"""What undoes a change of the converter, in fp32 and in the shape of the file."""


@dataclass(frozen=True)
class GgufArchitecture:
    """One `general.architecture`. Names are of modules, and stand for weight and bias.

    `layer`: names after `blk.0.`; `{x}` in a name stands for the number of an expert, of which the file has one stack.
    """

    config: Callable[[GgufMetadata], dict[str, Any]]
    outside: Mapping[str, str]
    layer: Mapping[str, str]
    prefix: str = "model.layers.{i}."
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Name of a module, in a layer or outside -> what undoes the change of its values."""


def unrotated(heads: str) -> Change:
    """Rows of queries or keys, whose pairs stand side by side, put back into two halves; `heads`: key of their number."""

    def change(tensor: Tensor, keys: GgufMetadata) -> Tensor:
        count = keys(heads, keys("attention.head_count"))
        halves = tensor.reshape(count, tensor.shape[0] // count // 2, 2, *tensor.shape[1:])
        return halves.transpose(1, 2).reshape(tensor.shape)

    return change


def minus_one(tensor: Tensor, keys: GgufMetadata) -> Tensor:
    """Gains stored as 1 + w."""
    return tensor - 1


def transposed(tensor: Tensor, keys: GgufMetadata) -> Tensor:
    """Matrices (O, I) of which the checkpoint has (I, O); biases are unchanged."""
    return tensor if tensor.dim() < 2 else tensor.mT


def one_row(tensor: Tensor, keys: GgufMetadata) -> Tensor:
    """A vector that is a matrix of one row."""
    return tensor.reshape(1, -1)
