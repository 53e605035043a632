"""Products of a few rows with a matrix as it is stored, by torch's kernels for CPUs: nothing is restored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Product:
    """x (rows, I) -> x W^T (rows, O) in bf16, for a matrix W (O, I) as it is stored.

    `most`: rows up to which that takes less time than to restore the matrix and multiply by it.
    """

    multiply: Callable[[Tensor], Tensor]
    most: int

    def __call__(self, x: Tensor) -> Tensor:
        """(..., I) -> (..., O), in the type of `x`."""
        y = self.multiply(x.reshape(-1, x.shape[-1]).to(torch.bfloat16))
        return y.view(*x.shape[:-1], y.shape[-1]).to(x.dtype)

    def suits(self, x: Tensor) -> bool:
        """Whether `x` (..., I) has few enough rows."""
        return x.numel() <= self.most * x.shape[-1]


def of_bf16(codes: Tensor) -> Product:
    """Numbers of 16 bits as they are. Where a processor has no instructions for them, many rows are faster in fp32."""
    return Product(lambda x: F.linear(x, codes), most=4)


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
