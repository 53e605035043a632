"""Codes in few bits as numbers: words of packed whole numbers, 4-bit floating point, powers of two."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.precision import E2M1, E8M0

FP4 = tuple(E2M1.value(code) for code in range(16))
"""The numbers of 4-bit floating-point codes: one bit of sign, two of exponent, one of mantissa (OCP Microscaling 1.0)."""
POWERS = tuple(E8M0.value(code) for code in range(256))
"""The powers of two that exponents of 8 bits stand for."""


def whole_numbers(words: Tensor, bits: int, count: int) -> Tensor:
    """The first `count` unsigned numbers of `bits` in every row of 32-bit words (R, W), the lowest bits first; (R, count).

    Number i begins at bit i * bits of the row, and may go on in the next word.
    """
    if 8 % bits == 0:
        bytes = words.contiguous().view(torch.uint8)
        places = torch.arange(0, 8, bits, dtype=torch.uint8)
        codes: Tensor = (bytes[..., None] >> places) & (2**bits - 1)
        return codes.flatten(-2)[..., :count]
    wide = torch.nn.functional.pad(words.to(torch.int64) & 0xFFFFFFFF, (0, 1))
    begins = torch.arange(count) * bits
    pairs = wide[..., begins // 32] | wide[..., begins // 32 + 1] << 32
    numbers: Tensor = (pairs >> (begins % 32)) & (2**bits - 1)
    return numbers.to(torch.uint8)


def words_of(count: int, bits: int) -> int:
    """32-bit words of `count` numbers of `bits`."""
    return -(-count * bits // 32)


def fp4_numbers(bytes: Tensor) -> Tensor:
    """The numbers of 4-bit floating-point codes, two in a byte, the first in the low bits: (..., n) -> (..., 2 n), fp32."""
    return torch.tensor(FP4)[torch.stack([bytes & 15, bytes >> 4], -1).flatten(-2).int()]


def powers_of_two(codes: Tensor) -> Tensor:
    """2^(code - 127) of 8-bit exponents, NaN of 255; fp32."""
    return torch.tensor(POWERS)[codes.view(torch.uint8).int()]


def scales_of(stored: Tensor) -> Tensor:
    """Scales as fp32: floating-point numbers as they are, exponents of 8 bits as powers of two."""
    return powers_of_two(stored) if stored.dtype in (torch.uint8, torch.float8_e8m0fnu) else stored.float()
