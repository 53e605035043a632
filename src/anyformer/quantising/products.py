"""Products with a matrix as it is stored: few rows by torch's kernels for CPUs, many by the matrix restored for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.processor import multiplies_tiles, packs
from anyformer.quantising.packing import unpacked


@dataclass(frozen=True)
class QuantisedProduct:
    """x (rows, I) -> x W^T (rows, O) for a matrix W (O, I) as it is stored, of which a few rows read `read` bytes.

    `few`: by a kernel that takes and gives numbers of `dtype`. `many`: by the matrix restored for this product alone, in the
    type `wide()`; it takes less time from more than `most` rows. `most` is None: the kernel is the faster for any number, and
    takes rows in any shape.
    """

    few: Callable[[Tensor], Tensor]
    read: int
    most: int | None = None
    many: Callable[[Tensor], Tensor] | None = None
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O), in the type of `x`."""
        if self.most is None and x.dim() > 1:
            return self.few(x.to(self.dtype)).to(x.dtype)
        rows = x.reshape(-1, x.shape[-1])
        if self.many is None or self.most is None or len(rows) <= self.most:
            y = self.few(rows.to(self.dtype))
        else:
            y = self.many(rows.to(wide()))
        return y.to(x.dtype).view(*x.shape[:-1], y.shape[-1])


def ordered(matrix: Tensor) -> Tensor:
    """A matrix (O, I) of whole numbers in the order in which oneDNN reads it fastest, as a tensor of no other use.

    It takes the same bytes, and `to_dense` restores it exactly. As it is, at the start of a line of the cache, where oneDNN has
    no kernel for its type and where one row is multiplied faster so.
    """
    if not _for_onednn(matrix) or multiplies_tiles():
        return _at_line(matrix)
    held: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix, 1)
    return held


PACKED = (torch.float32, torch.bfloat16)
"""Types of which oneDNN's order was measured to be the faster one."""
LINE = 64
"""Bytes of a line of a processor's cache."""


def _at_line(matrix: Tensor) -> Tensor:
    """The matrix, copied where it begins within a line: files are read in place, and each load of one would touch two lines."""
    return matrix if matrix.device.type != "cpu" or matrix.data_ptr() % LINE == 0 else matrix.clone()


def of_whole(codes: Tensor) -> QuantisedProduct:
    """Numbers of 16 or 32 bits, in oneDNN's order or as they are, which is faster with AMX.

    Where a processor has no instructions for 16 bits, many rows are faster in fp32.
    """
    held = codes if codes.is_mkldnn else ordered(codes)
    if held.is_mkldnn:
        multiply = torch.ops.mkldnn._linear_pointwise
        return QuantisedProduct(lambda x: multiply(x, held, None, "none", [], ""), held.nbytes, dtype=held.dtype)
    if _for_onednn(held):
        return QuantisedProduct(partial(_by_rows, held), held.nbytes, dtype=held.dtype)
    if held.dtype.itemsize > 2:
        return QuantisedProduct(lambda x: F.linear(x, held), held.nbytes, dtype=held.dtype)
    return QuantisedProduct(lambda x: F.linear(x, held), held.nbytes, 4, lambda x: F.linear(x, held.to(x.dtype)), held.dtype)


FEW = 64
"""The most rows that are multiplied so: with more, copies of the transposed results take what the tiles gain."""


def _by_rows(matrix: Tensor, x: Tensor) -> Tensor:
    """x W^T, computed as (W x^T)^T where x has too few rows to fill the tiles of AMX: those of W do."""
    rows = x.shape[:-1].numel()
    if rows == 1:
        return torch.mv(matrix, x.reshape(-1)).view(*x.shape[:-1], len(matrix))
    if rows <= FEW:
        return (matrix @ x.reshape(rows, -1).t()).t().reshape(*x.shape[:-1], len(matrix))
    return F.linear(x, matrix)


SIXTEEN = 16
"""The kernels take multiples of so many outputs."""
AT_ONCE = 4096
"""Outputs that are put in the kernel's order at a time, since it is given 32 bits a code: whole blocks of it."""


def of_int8(codes: Tensor, scales: Tensor) -> QuantisedProduct:
    """W = scales Q with codes Q (O, I) and a scale per output, I in sixty-fours.

    The codes are whole numbers that bf16 has exactly, so no weight is rounded for many rows either. Where O is not in sixteens
    the kernel reads beyond the last row, so it is given a copy that is filled up with zeros.
    """
    beyond = -len(codes) % SIXTEEN
    filled = F.pad(codes, (0, 0, 0, beyond)) if beyond else codes
    row = F.pad(scales.flatten(), (0, beyond)).to(torch.bfloat16)
    return QuantisedProduct(
        lambda x: _first(torch._weight_int8pack_mm(x, filled, row), len(codes)),
        filled.nbytes + row.nbytes,
        32,
        lambda x: F.linear(x, codes.to(x.dtype)).float() * scales.flatten(),
    )


def of_int4(bytes: Tensor, scales: Tensor, zeros: Tensor, group: int) -> QuantisedProduct:
    """W = scales (Q - zeros), of two codes of 4 bits in a byte: Q (O, I), and a scale and a zero point (O, groups) for every
    `group` inputs, of which there are 32, 64 or 128.

    The kernel has an order of its own for the codes, so it holds a copy of them. It takes Q - 8 times a scale, plus an offset.
    Outputs are filled up with zeros to the sixteens that it takes, in this copy alone.
    """
    outputs, inputs = len(scales), scales.shape[1] * group
    beyond = -outputs % SIXTEEN
    ordered = _ordered_by_4_bits(bytes.view(outputs, -1))
    both = F.pad(torch.stack([scales.float(), (8 - zeros) * scales.float()], -1), (0, 0, 0, 0, 0, beyond))
    pairs = both.transpose(0, 1).to(torch.bfloat16).contiguous()

    def few(x: Tensor) -> Tensor:
        return _first(torch._weight_int4pack_mm_for_cpu(x, ordered, group, pairs), outputs)

    def many(x: Tensor) -> Tensor:
        matrix = unpacked(bytes, outputs * inputs).view(outputs, -1, group).to(x.dtype)
        matrix.sub_(zeros[..., None].to(x.dtype)).mul_(scales[..., None])
        return F.linear(x, matrix.view(outputs, inputs))

    return QuantisedProduct(few, ordered.nbytes + pairs.nbytes, 128, many)


def _first(y: Tensor, outputs: int) -> Tensor:
    """So many outputs of (rows, O), side by side."""
    return y if y.shape[1] == outputs else y[:, :outputs].contiguous()


def _ordered_by_4_bits(bytes: Tensor) -> Tensor:
    """Codes (O, I), two in a byte, in the order of torch's kernel, filled up with zeros."""
    pieces = []
    for some in torch.split(bytes, AT_ONCE):
        codes = F.pad(unpacked(some, 2 * some.shape[1]).to(torch.int32), (0, 0, 0, -len(some) % SIXTEEN))
        pieces.append(torch._convert_weight_to_int4pack_for_cpu(codes, 1))
    return torch.cat(pieces)


def wide() -> torch.dtype:
    """The type in which many rows are multiplied fastest here: bf16 where the processor has instructions for it."""
    return torch.bfloat16 if packs(torch.bfloat16) else torch.float32


def _for_onednn(matrix: Tensor) -> bool:
    """Whether oneDNN has a kernel for products with this matrix, in an order of its own or, with AMX, as it is."""
    return matrix.device.type == "cpu" and matrix.dtype in PACKED and packs(matrix.dtype)
