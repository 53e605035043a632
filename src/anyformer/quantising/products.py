"""Products of a few rows with a matrix as it is stored, by torch's kernels for CPUs: nothing is restored."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """x (rows, I) -> x W^T (rows, O) for a matrix W (O, I) as it is stored; the kernel takes and gives numbers of `dtype`.

    `most`: rows up to which that takes less time than to restore the matrix and multiply by it; None: any number.
    """

    multiply: Callable[[Tensor], Tensor]
    most: int | None
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O), in the type of `x`."""
        y = self.multiply(x.reshape(-1, x.shape[-1]).to(self.dtype))
        return y.to(x.dtype).view(*x.shape[:-1], y.shape[-1])

    def suits(self, x: Tensor) -> bool:
        """Whether `x` (..., I) has few enough rows."""
        return self.most is None or x.numel() <= self.most * x.shape[-1]


def ordered(matrix: Tensor) -> Tensor:
    """A matrix (O, I) of whole numbers in the order in which oneDNN reads it fastest, as a tensor of no other use.

    It takes the same bytes, and `to_dense` restores it exactly. The matrix itself where oneDNN has no kernel for its type.
    """
    if matrix.device.type != "cpu" or not _onednn(matrix.dtype):
        return matrix
    held: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix, 1)
    return held


def of_whole(codes: Tensor) -> Product:
    """Numbers of 16 or 32 bits, as they are or in oneDNN's order.

    Where a processor has no instructions for 16 bits, many rows are faster in fp32.
    """
    if (held := codes if codes.is_mkldnn else ordered(codes)).is_mkldnn:
        multiply = torch.ops.mkldnn._linear_pointwise
        return Product(lambda x: multiply(x, held, None, "none", [], ""), most=None, dtype=codes.dtype)
    return Product(lambda x: F.linear(x, codes), most=4 if codes.dtype.itemsize == 2 else None, dtype=codes.dtype)


def of_int8(codes: Tensor, scales: Tensor) -> Product | None:
    """W = scales Q with codes Q (O, I) and a scale for each output; None for sizes that the kernel does not take."""
    outputs, inputs = codes.shape
    if codes.device.type != "cpu" or outputs % 16 or inputs % 64:  # The kernel reads beyond the end of other rows.
        return None
    row = scales.flatten().to(torch.bfloat16)
    return Product(lambda x: torch._weight_int8pack_mm(x, codes, row), most=32)


def of_int4(codes: Tensor, scales: Tensor, zeros: Tensor, group: int) -> Product | None:
    """W = scales (Q - zeros) with codes Q (O, I) of 4 bits, and a scale and a zero point (O, groups) for every `group` inputs.

    The kernel has an order of its own for the codes, so it holds a copy of them. It takes Q - 8 times a scale, plus an offset.
    """
    outputs, inputs = codes.shape
    if codes.device.type != "cpu" or outputs % 16 or inputs % group or group not in (32, 64, 128):
        return None
    ordered = torch._convert_weight_to_int4pack_for_cpu(codes.to(torch.int32), 1)
    both = torch.stack([scales, (8 - zeros) * scales], -1).transpose(0, 1).to(torch.bfloat16).contiguous()
    return Product(lambda x: torch._weight_int4pack_mm_for_cpu(x, ordered, group, both), most=32)


@cache
def _onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies numbers of this type here, as tried on x86 processors."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
