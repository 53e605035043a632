"""Matrices in few bits on disk: their planes as tensors of their own, and a file that says what they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from anyformer.checkpoint.manifest import CheckpointError
from anyformer.checkpoint.stored import StoredTensors, TensorsOnDisk, copy_stored
from anyformer.describe import UserError, Value, from_json
from anyformer.files import read_text
from anyformer.model import Architecture
from anyformer.operations import Extent, Shape
from anyformer.quantising import HALF, Plain, Quantising
from anyformer.quantising.model import format_of
from anyformer.quantising.packing import typed
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


def of_all(found: Iterable[InFewBits | None]) -> InFewBits | None:
    """What is to be said of the matrices that several processes have, from what each says of its own."""
    said = [each for each in found if each is not None]
    if not said:
        return None
    format = next((each.format for each in said if each.matrices), HALF.name)
    return said[0].but(format=format, matrices=tuple(dict.fromkeys(name for each in said for name in each.matrices)))


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


@dataclass(frozen=True)
class FewBitWeights(TensorsOnDisk):
    """The weights of a checkpoint some of whose matrices are in few bits; one that is looked up is read as it is stored.

    `matrices`: names of those in `format`; `dtype`: of all weights.
    """

    stored: StoredTensors
    shapes: Mapping[str, tuple[int, ...]]
    matrices: frozenset[str]
    format: Quantising
    dtype: torch.dtype

    @staticmethod
    def of(stored: StoredTensors, said: InFewBits, architecture: Architecture) -> FewBitWeights:
        """The weights of a file of them. Raises `CheckpointError`, which names what is not there."""
        source, weights, found = stored.path, architecture.trained_cost(Shape()).weights, format_of(said.format)
        if said.matrices and not isinstance(found, Quantising):
            raise CheckpointError(f"{source}: {QUANTISED} says {said.format}, which is no format of few bits")
        format = found if isinstance(found, Quantising) else HALF
        shapes = dict(stored.shapes)
        for name in said.matrices:
            if name not in weights:
                raise CheckpointError(f"{source}: {QUANTISED} names {name}, which this architecture does not have")
            for plane, (shape, kind) in format.planes(weights[name].shape).items():
                there = shapes.pop(f"{name}.{plane}", None)
                if there != shape:
                    what = "is not there" if there is None else f"has shape {there}"
                    raise CheckpointError(f"{source}: {name}.{plane} {what}; {said.format} stores {shape}, torch.{kind}")
            shapes[name] = weights[name].shape
        return FewBitWeights(stored, shapes, frozenset(said.matrices), format, getattr(torch, said.dtype))

    def __getitem__(self, name: str) -> Tensor:
        """A weight. Raises `CheckpointError` where a plane has not the type of its format."""
        if name not in self.matrices:
            return self._converted(self.stored[name])
        planes, shape = dict[str, Tensor](), self.shapes[name]
        for plane, (_, kind) in self.format.planes(shape).items():
            planes[plane] = found = self.stored[f"{name}.{plane}"]
            if found.dtype != typed(kind):
                raise CheckpointError(
                    f"{self.stored.path}: {name}.{plane} has type {found.dtype}; {self.format.name} stores torch.{kind}"
                )
        return Quantised(planes, self.format, shape, self.dtype)

    def part(self, name: str, extent: Extent) -> Tensor:
        """A part of a weight that is not in few bits."""
        return self._converted(self.stored.part(name, extent))

    def type_of(self, name: str) -> torch.dtype:
        if name in self.matrices:
            return self.dtype
        stored = self.stored.type_of(name)
        return self.dtype if stored.is_floating_point else stored

    def _converted(self, values: Tensor) -> Tensor:
        return values.to(self.dtype) if values.is_floating_point() else values


@torch.no_grad()
def restore_few_bits(weights: Mapping[str, Tensor], name: str, held: Quantised) -> None:
    """Make a weight held in few bits equal to the stored one of its name; a process reads its parts of the planes alone.

    Raises `UserError` where that is stored in another format.
    """
    in_planes = isinstance(weights, FewBitWeights) and name in weights.matrices
    if isinstance(held.format, Plain) and not in_planes:
        copy_stored(weights, name, held.planes["codes"])
        return
    if not isinstance(weights, FewBitWeights) or not in_planes or weights.format != held.format:
        there = weights.format.name if isinstance(weights, FewBitWeights) and in_planes else "plain numbers"
        raise UserError(f"{name} is held as {held.format.name}, and the weights read are {there}")
    for plane, values in held.planes.items():
        copy_stored(weights.stored, f"{name}.{plane}", values)
