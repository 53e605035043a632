"""Tensors rounded to a narrow format with scales that numbers share."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.precision.formats import E4M3, E8M0
from anyformer.precision.rounding import exponent_of, power_of_two, rounded
from anyformer.precision.scaling import ScaledFormat

LEAST = 1e-12
"""The smallest maximum that is scaled up: what is all zero needs no scale, and its multiplier must stay finite."""


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
