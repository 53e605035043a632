"""Matrices in few bits on disk: their planes as tensors of their own, and a file that says what they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from anyformer.checkpoint.manifest import CheckpointError
from anyformer.describe import Value, from_json
from anyformer.files import read_text
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.quantising import HALF, Plain, Quantising
from anyformer.quantising.model import format_of
from anyformer.quantising.tensor import Quantised

QUANTISED = "quantised.json"


class InFewBits(Value):
    """The matrices of a checkpoint that are in few bits, their format, and the type that all weights are computed with."""

    format: str
    dtype: Literal["float32", "bfloat16", "float16"]
    matrices: tuple[str, ...]


def few_bits_of(directory: Path) -> str | None:
    """The format of a checkpoint's matrices in few bits, None of one without any."""
    path = directory / QUANTISED
    return from_json(InFewBits, read_text(path, CheckpointError), str(path)).format if path.is_file() else None


def in_few_bits(tensors: Mapping[str, Tensor]) -> InFewBits | None:
    """What is to be said of the matrices in few bits among these weights, None without any."""
    held = {name: x for name, x in tensors.items() if isinstance(x, Quantised)}
    if not held:
        return None
    matrices = {name: x for name, x in held.items() if not isinstance(x.format, Plain)}
    (format,) = {x.format.name for x in matrices.values()} or {HALF.name}
    (dtype,) = {str(x.dtype).removeprefix("torch.") for x in held.values()}
    return InFewBits(format=format, dtype=dtype, matrices=tuple(matrices))  # type: ignore[arg-type]


def planes(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor by name; of a matrix in few bits its planes, as `NAME.codes`, of one in half its numbers."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, Quantised) and isinstance(tensor.format, Plain):
            found[name] = tensor.planes["codes"]
        elif isinstance(tensor, Quantised):
            found |= {f"{name}.{plane}": x for plane, x in tensor.planes.items()}
        else:
            found[name] = tensor
    return found


def gathered(tensors: Mapping[str, Tensor], said: InFewBits, architecture: Architecture, source: Path) -> dict[str, Tensor]:
    """Weights by name, matrices in few bits from their planes. Raises `CheckpointError`, which names what is not there."""
    weights, format, dtype = architecture.trained_cost(Shape()).weights, format_of(said.format), getattr(torch, said.dtype)
    if said.matrices and not isinstance(format, Quantising):
        raise CheckpointError(f"{source}: {QUANTISED} says {said.format}, which is no format of few bits")
    made, few = dict(tensors), {}
    for name in said.matrices:
        if name not in weights:
            raise CheckpointError(f"{source}: {QUANTISED} names {name}, which this architecture does not have")
        assert isinstance(format, Quantising), "checked above"
        own = {}
        for plane, (shape, kind) in format.planes(weights[name].shape).items():
            found = made.pop(f"{name}.{plane}", None)
            if found is None or tuple(found.shape) != shape or found.dtype != getattr(torch, kind):
                what = "is not there" if found is None else f"has shape {tuple(found.shape)} and type {found.dtype}"
                raise CheckpointError(f"{source}: {name}.{plane} {what}; {said.format} stores {shape}, torch.{kind}")
            own[plane] = found
        few[name] = Quantised(own, format, weights[name].shape, dtype)
    return {**{name: x.to(dtype) if x.is_floating_point() else x for name, x in made.items()}, **few}
