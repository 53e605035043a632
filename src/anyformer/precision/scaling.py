"""Numbers that share a scale, so that a narrow format holds them: per tensor, per row, or per block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from anyformer.precision.formats import (
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    E8M0,
    FP32,
    INT4,
    INT8,
    NumberFormat,
    exponent_of,
    power_of_two,
    rounded,
)

Per = Literal["tensor", "row", "block"]
LEAST = 1e-12
"""The smallest maximum that is scaled up: what is all zero needs no scale, and its multiplier must stay finite."""


@dataclass(frozen=True)
class ScaledFormat:
    """Numbers in `element`, each multiplied before rounding by the S of its tensor, row or block: q = round(x S), x = q / S.

    `row`: all numbers along the last dimension, which of a weight (O, I) is one output channel. `block`: `block` neighbours
    along the last dimension, of which the last block may be shorter. How S is stored is `scale`:
      fp32: S = largest / max |x|
      e8m0: S = 2^(floor(log2 largest) - floor(log2 max |x|)) (OCP microscaling formats, 2023, 6.3)
      fp8_e4m3: 1 / S = p rounded(max |x| / (largest p)), p = max over all |x| / (largest 448), one fp32 number (NVFP4)
    """

    name: str
    element: NumberFormat
    per: Per
    block: int = 0
    scale: NumberFormat = FP32


FP8_TENSOR = ScaledFormat("fp8_tensor", E4M3, "tensor")
FP8_ROW = ScaledFormat("fp8_row", E4M3, "row")
FP8_GRADIENT_TENSOR = ScaledFormat("fp8_e5m2_tensor", E5M2, "tensor")
FP8_GRADIENT_ROW = ScaledFormat("fp8_e5m2_row", E5M2, "row")
INT8_ROW = ScaledFormat("int8_row", INT8, "row")
INT4_32 = ScaledFormat("int4_32", INT4, "block", 32)
INT4_128 = ScaledFormat("int4_128", INT4, "block", 128)
MXFP8 = ScaledFormat("mxfp8", E4M3, "block", 32, E8M0)
MXFP8_GRADIENT = ScaledFormat("mxfp8_e5m2", E5M2, "block", 32, E8M0)
MXFP6_E3M2 = ScaledFormat("mxfp6_e3m2", E3M2, "block", 32, E8M0)
MXFP6_E2M3 = ScaledFormat("mxfp6_e2m3", E2M3, "block", 32, E8M0)
MXFP4 = ScaledFormat("mxfp4", E2M1, "block", 32, E8M0)
NVFP4 = ScaledFormat("nvfp4", E2M1, "block", 16, E4M3)
SCALED_FORMATS = {
    format.name: format
    for format in (
        *(FP8_TENSOR, FP8_ROW, FP8_GRADIENT_TENSOR, FP8_GRADIENT_ROW, INT8_ROW, INT4_32, INT4_128),
        *(MXFP8, MXFP8_GRADIENT, MXFP6_E3M2, MXFP6_E2M3, MXFP4, NVFP4),
    )
}


def maximum(tensor: Tensor, format: ScaledFormat) -> Tensor:
    """max |x| of everything that shares a scale, fp32: (), (..., 1) per row, or (..., blocks)."""
    size = tensor.detach().abs().float()
    if format.per == "tensor":
        return size.amax()
    return size.amax(-1, keepdim=True) if format.per == "row" else blocks(size, format.block).amax(-1)


def multiplier(maximum: Tensor, format: ScaledFormat) -> Tensor:
    """S for numbers whose largest is `maximum`, fp32 and of its shape."""
    largest = format.element.largest
    if format.scale is E8M0:
        greatest = exponent_of(torch.tensor(largest))
        # 128 would be NaN, and the least scale is 2^-127.
        power = (exponent_of(maximum).clamp(min=-E8M0.bias) - greatest).clamp(-E8M0.bias, E8M0.bias)
        return power_of_two(-power).float()
    if format.scale is E4M3:
        whole = (maximum.amax() / (largest * E4M3.largest)).clamp(min=torch.finfo(torch.float32).tiny)
        ratio = (maximum / largest / whole).clamp(min=E4M3.smallest_normal)
        return (1 / whole) / rounded(ratio, E4M3)
    return (largest / maximum.double().clamp(min=LEAST)).float()


def scaled(tensor: Tensor, format: ScaledFormat, by: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(q, S): numbers of `format.element` in fp32 and of the tensor's shape, and the multiplier that they were rounded with.

    `by`: S to use in place of the tensor's own, as one of earlier steps; what it makes too large saturates.
    """
    by = multiplier(maximum(tensor, format), format) if by is None else by
    return rounded(tensor.float() * spread(by, format, tensor.shape[-1]), format.element), by


def scaled_rounded(tensor: Tensor, format: ScaledFormat, by: Tensor | None = None) -> Tensor:
    """`tensor` as it comes back from `format`: q / S, same shape and type. Not differentiable."""
    codes, by = scaled(tensor, format, by)
    return (codes / spread(by, format, tensor.shape[-1])).to(tensor.dtype)


def spread(by: Tensor, format: ScaledFormat, length: int) -> Tensor:
    """S beside every number along a last dimension of `length`, where blocks need it: (..., blocks) to (..., length)."""
    return by.repeat_interleave(format.block, -1)[..., :length] if format.per == "block" else by


def blocks(tensor: Tensor, size: int) -> Tensor:
    """(..., I) to (..., ceil(I / size), size), a shorter last block filled with zeros."""
    missing = -tensor.shape[-1] % size
    padded = torch.nn.functional.pad(tensor, (0, missing))
    return padded.reshape(*tensor.shape[:-1], -1, size)
