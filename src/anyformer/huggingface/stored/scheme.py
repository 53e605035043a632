"""How one weight is stored in few bits: the tensors that hold it, and the numbers that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch import Tensor

Shape = tuple[int, ...]
Plane = tuple[Shape, torch.dtype]
"""Shape and type of one of the tensors that hold a weight."""
CHUNK = 1 << 16
"""Numbers restored at once: intermediate results in fp32 stay this small, however large the weight is."""


class Scheme(Protocol):
    """A way to hold a weight in several tensors. Tensors are named by what they are to the weight: `codes`, `scales`."""

    @property
    def name(self) -> str:
        """What people call it: `fp8 in blocks of 128 x 128`."""

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        """The shape of the weight, from the tensors that hold it. Raises `ValueError` where they hold none."""

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        """The tensors that hold a weight of this shape; those of a scale may have more dimensions of 1."""

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        """The weight, each number computed in fp32 and rounded once."""


@dataclass(frozen=True)
class StoredTensor:
    """One stored tensor: its name in the files, type, shape, and a function that reads it."""

    name: str
    dtype: torch.dtype
    shape: Shape
    read: Callable[[], Tensor]


@dataclass(frozen=True)
class PackedWeight:
    """A weight that several tensors hold: what a tensor is to the weight -> its name in the files."""

    scheme: Scheme
    parts: Mapping[str, str]


@dataclass(frozen=True)
class FoundWeights:
    """What a format has in a directory: weights by the name that they would have in full, and tensors that are left aside."""

    packed: Mapping[str, PackedWeight]
    aside: tuple[str, ...] = ()
    """Names of scales that only a computation in few bits needs: of activations and of the cache."""
    read: tuple[str, ...] = ()
    """Names of tensors that are read with the weights, and are none."""


def bare(shape: Sequence[int]) -> Shape:
    """A shape without its dimensions of 1."""
    return tuple(size for size in shape if size != 1)


def filled(whole: Shape, dtype: torch.dtype, axis: int, unit: int, numbers: Callable[[int, int], Tensor]) -> Tensor:
    """A tensor made piece by piece along `axis`, in steps that are multiples of `unit` and about `CHUNK` numbers.

    `numbers(start, end)`: the piece from `start` to `end`, in any floating-point type.
    """
    out = torch.empty(whole, dtype=dtype)
    length = whole[axis]
    step = unit * max(1, CHUNK // max(1, unit * prod(whole) // max(1, length)))
    for start in range(0, length, step):
        end = min(start + step, length)
        out.narrow(axis, start, end - start).copy_(numbers(start, end))
    return out


def groups_of(inputs: int, group: int | None) -> int:
    """Groups of neighbours along the inputs; `None` or -1: one for all."""
    return 1 if group in (None, -1) else -(-inputs // int(group or inputs))
