"""Matrices as codes times a scale that neighbours share: by block, row, group of inputs, or one for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch import Tensor

from anyformer.huggingface.stored.numbers import fp4_numbers, scales_of, whole_numbers, words_of
from anyformer.huggingface.stored.scheme import Plane, Shape, StoredTensor, filled


class Codes(Protocol):
    """How the codes of a matrix (O, I) are stored, row by row."""

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        """The shape of the matrix."""

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        """The tensors that hold the codes."""

    def numbers(self, rows: Tensor, inputs: int) -> Tensor:
        """The numbers that some rows of codes stand for, before any scale; fp32."""


@dataclass(frozen=True)
class Eight:
    """A code of 8 bits per number, floating-point or whole."""

    dtype: torch.dtype

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        return parts["codes"].shape

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        return {"codes": (whole, self.dtype)}

    def numbers(self, rows: Tensor, inputs: int) -> Tensor:
        return rows.float()


@dataclass(frozen=True)
class Fp4:
    """4-bit floating-point codes, two neighbours of a row in a byte."""

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        *stacked, bytes = parts["codes"].shape
        return (*stacked, 2 * bytes)

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        *stacked, inputs = whole
        if inputs % 2:
            raise ValueError(f"rows of {inputs} numbers do not fill bytes of two")
        return {"codes": ((*stacked, inputs // 2), torch.uint8)}

    def numbers(self, rows: Tensor, inputs: int) -> Tensor:
        return fp4_numbers(rows)


@dataclass(frozen=True)
class IntegerWords:
    """Whole numbers from -2^(bits-1) on, as distances from it in 32-bit words along each row, with the shape beside them."""

    bits: int

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        return tuple(parts["shape"].read().tolist())

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        *stacked, inputs = whole
        return {
            "codes": ((*stacked, words_of(inputs, self.bits)), torch.int32),
            "shape": ((len(whole),), torch.int64),
        }

    def numbers(self, rows: Tensor, inputs: int) -> Tensor:
        codes = whole_numbers(rows, self.bits, inputs)
        return codes.float().sub(2 ** (self.bits - 1))


@dataclass(frozen=True)
class Scaled:
    """x = scale (code - zero): `block` = (rows, inputs) that share a scale and a zero point, None for all of that axis.

    Blocks at an edge are cut. Experts (X, O, I) are as many matrices, each with scales of its own. `order`: the block of each
    input is stored, in place of its place in the row. Codes may be divided or multiplied by one more scale of the whole matrix.
    """

    name: str
    codes: Codes
    block: tuple[int | None, int | None] = (None, None)
    scale: torch.dtype = torch.float32
    zeros: torch.dtype | None = None
    """Type of zero points; None: there are none. Those of 32 bits are packed as codes are, along the outputs."""
    outer: str | None = None
    """What is done with one more scale of the whole matrix: `times` or `over`."""
    factor: float = 1.0

    def whole(self, parts: Mapping[str, StoredTensor]) -> Shape:
        whole = self.codes.whole(parts)
        if len(whole) < 2:
            raise ValueError(f"a matrix has two dimensions, and its shape is {whole}")
        return whole

    def planes(self, whole: Shape) -> Mapping[str, Plane]:
        *stacked, outputs, inputs = whole
        grid = self._grid(outputs, inputs)
        planes = {**self.codes.planes(whole), "scales": ((*stacked, *grid), self.scale)}
        if self.zeros is not None:
            rows = words_of(grid[0], self._bits) if self.zeros == torch.int32 else grid[0]
            planes["zeros"] = ((*stacked, rows, grid[1]), self.zeros)
        if self.outer is not None:
            planes["outer"] = ((), torch.float32)
        return planes

    def restored(self, parts: Mapping[str, StoredTensor], whole: Shape, dtype: torch.dtype) -> Tensor:
        *stacked, outputs, inputs = whole
        rows_of_grid, columns = self._grid(outputs, inputs)
        codes = parts["codes"].read().flatten(0, -2)
        scales = scales_of(parts["scales"].read()).reshape(-1, columns)
        if self.outer is not None:
            outer = parts["outer"].read().float()
            scales = scales / outer if self.outer == "over" else scales * outer
        zeros = self._zeros(parts["zeros"].read(), rows_of_grid, columns) if "zeros" in parts else None
        column = parts["order"].read().long() if "order" in parts else torch.arange(inputs) // (self.block[1] or inputs)
        if not 0 <= int(column.min()) <= int(column.max()) < columns:
            raise ValueError(f"{parts['order'].name} names groups from {int(column.min())} to {int(column.max())} of {columns}")

        def numbers(start: int, end: int) -> Tensor:
            row = torch.arange(start, end)
            row = row // outputs * rows_of_grid + row % outputs // (self.block[0] or outputs)
            x = self.codes.numbers(codes[start:end], inputs)
            if zeros is not None:
                x = x - zeros[row][:, column]
            x = x * scales[row][:, column]
            return x if self.factor == 1.0 else x * self.factor

        return filled((prod(stacked) * outputs, inputs), dtype, 0, 1, numbers).reshape(whole)

    def _grid(self, outputs: int, inputs: int) -> tuple[int, int]:
        """Scales along both axes of a matrix."""
        rows, columns = self.block
        return -(-outputs // (rows or outputs)), -(-inputs // (columns or inputs))

    @property
    def _bits(self) -> int:
        assert isinstance(self.codes, IntegerWords), "only zero points of packed codes are packed"
        return self.codes.bits

    def _zeros(self, stored: Tensor, rows: int, columns: int) -> Tensor:
        """Zero points (rows of all matrices, columns), fp32."""
        if stored.dtype != torch.int32:
            return stored.float().reshape(-1, columns)
        return self.codes.numbers(stored.mT.contiguous(), rows).mT.reshape(-1, columns)
