"""What a format of stored weights owes: bytes, rounding, restoring, and products with a matrix as it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from anyformer.operations import Weight

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.quantising.products import QuantisedProduct


Plane = tuple[tuple[int, ...], str]
"""Shape, and torch's name of the type, of one of the tensors that a matrix is stored in."""
BYTES = {"uint8": 1, "int8": 1, "float8_e4m3fn": 1, "bfloat16": 2, "float32": 4}
"""Bytes of a number, by torch's name of its type."""
LEAST = 1e-12
"""The smallest scale: what is all zero has to be divided by something."""


@dataclass(frozen=True)
class MatrixFormat:
    """How matrices are stored: `bits` per element, and what they share.

    Only matrices of blocks (and of the embeddings' projections) are quantised: tables, heads, norms, routers, biases and
    whatever else has one dimension stay 16 bits, as in GPTQ, AWQ and fp8 checkpoints; `fp32` stores all in 32.
    """

    name: str
    bits: int
    other_bits: int = 16
    """Bits per element of weights that are not quantised."""

    @property
    def whole(self) -> bool:
        """Whether matrices are stored as plain numbers, like everything else."""
        return True

    def matrix_bytes(self, weight: Weight) -> int:
        """Bytes of one declared weight (all its copies), scales included."""
        return weight.copies * -(-prod(weight.shape) * self.bits // 8)

    def bytes(self, weight: Weight) -> int:
        """Bytes of a weight as it is stored."""
        return self.matrix_bytes(weight) if weight.quantisable else -(-weight.count * self.other_bits // 8)


@dataclass(frozen=True)
class Quantising(MatrixFormat):
    """A format below 16 bits: a matrix (O, I), or experts (X, O, I), becomes several tensors, its planes."""

    @property
    def whole(self) -> bool:
        return False

    def matrix_bytes(self, weight: Weight) -> int:
        """The bytes of all planes, per copy."""
        return weight.copies * sum(prod(shape) * BYTES[kind] for shape, kind in self.planes(weight.shape).values())

    def planes(self, shape: tuple[int, ...]) -> Mapping[str, Plane]:
        """The tensors that a matrix of this shape is stored in."""
        raise NotImplementedError

    def quantised(self, matrix: Tensor) -> dict[str, Tensor]:
        """The planes of a matrix, each number rounded to the nearest."""
        raise NotImplementedError

    def restored(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        """The matrix that the planes hold, fp32."""
        raise NotImplementedError

    def product(self, planes: Mapping[str, Tensor], shape: tuple[int, ...]) -> QuantisedProduct | None:
        """The product with the matrix (O, I) as it is stored, where torch has a kernel for it."""
        return None

    def multiplies(self, shape: tuple[int, ...]) -> bool:
        """Whether torch has a kernel of the processor for products with a matrix of this shape as it is stored."""
        return False

    def rows(self, planes: Mapping[str, Tensor], shape: tuple[int, ...], index: Tensor) -> Tensor | None:
        """Rows (..., I) of a matrix (O, I) by their numbers (...); None where the whole matrix has to be restored for them."""
        return None

    def one(self, planes: Mapping[str, Tensor], index: int) -> Mapping[str, Tensor] | None:
        """The planes of one of several matrices (X, O, I), as views; None where they cannot be told apart."""
        return None

    def joined(self, planes: Sequence[Mapping[str, Tensor]], shapes: Sequence[tuple[int, ...]]) -> Mapping[str, Tensor] | None:
        """The planes of matrices (O, I) one below the other; None where they share numbers, or lie between bytes."""
        return None
