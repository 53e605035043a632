"""A tensor rounded to the numbers that a few bits can hold."""

from __future__ import annotations

from math import inf, nan
from typing import Literal

import torch
from torch import Tensor

from anyformer.precision.formats import NumberFormat

DOUBLE_MANTISSA, DOUBLE_BIAS = 52, 1023

Overflow = Literal["saturate", "infinity"]


EXACT_CASTS = (torch.float32, torch.bfloat16, torch.float16)
"""Types that torch casts to a smaller one in one rounding; from fp64 it rounds to fp32 first, and so twice."""


def rounded(tensor: Tensor, format: NumberFormat, overflow: Overflow = "saturate") -> Tensor:
    """`tensor` with every number rounded to the nearest of `format`, ties to the even one; same shape and type.

    What rounds beyond the largest number becomes the largest with `saturate`; with `infinity` it becomes infinite, or NaN in a
    format without infinity, or the largest in one without either. NaN stays NaN, even where the format has none.
    Not differentiable.
    """
    if format.sign == 0:
        raise ValueError(f"{format.name} holds powers of two, for scales: round numbers to another format")
    if overflow == "saturate":
        largest = min(format.largest, torch.finfo(tensor.dtype).max)
        tensor = tensor.clamp(-largest, largest)
    # Whether torch's conversion to 8 bits saturates depends on torch's version: it is used for what is in range.
    in_range = overflow == "saturate" or format.bits > 8
    if in_range and tensor.dtype in EXACT_CASTS and format.dtype is not None and format.exponent:
        return tensor.to(format.dtype).to(tensor.dtype)
    if overflow == "saturate" and not format.exponent:  # whole numbers
        return tensor.round()
    return on_grid(tensor.double(), format).to(tensor.dtype)


def on_grid(tensor: Tensor, format: NumberFormat) -> Tensor:
    """`rounded` by its definition, in fp64: x = q step(x), q to the nearest integer, step = 2^(max(exponent, least) - M)."""
    if format.mantissa >= DOUBLE_MANTISSA:
        return tensor
    quantum = power_of_two(exponent_of(tensor).clamp(min=format.least_exponent) - format.mantissa)
    numbers = (tensor / quantum).round() * quantum
    beyond = {"ieee": inf, "nan": nan, "none": format.largest}[format.special]
    kept = torch.where(numbers.abs() > format.largest, torch.full_like(numbers, beyond).copysign(numbers), numbers)
    return torch.where(tensor.isnan(), tensor, kept)


def exponent_of(tensor: Tensor) -> Tensor:
    """floor(log2 |x|) of fp64 numbers, from their bits: exact; of zero and of subnormal numbers -1023."""
    return ((tensor.double().view(torch.int64) >> DOUBLE_MANTISSA) & 0x7FF) - DOUBLE_BIAS


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent in fp64, of integers from -1022 to 1023: exact, from the bits."""
    return ((exponent.to(torch.int64) + DOUBLE_BIAS) << DOUBLE_MANTISSA).view(torch.float64)
