"""Number formats: which numbers a few bits can hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log10, nan
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch


Special = Literal["ieee", "nan", "none"]


@dataclass(frozen=True)
class NumberFormat:
    """A format of numbers: sign, exponent and mantissa bits, of which everything else follows.

    A code with exponent field e and mantissa field m, of E and M bits, is
        (-1)^sign 2^(e - bias) (1 + m / 2^M)    e > 0: normal numbers
        (-1)^sign 2^(1 - bias) m / 2^M          e = 0: zero and subnormal numbers (gradual underflow)
    with bias = 2^(E - 1) - 1 (IEEE 754; OCP 8-bit floating point, 2023; OCP microscaling formats, 2023). Two cases are made one
    with these: integers have no exponent, bias 1 - M and so a step of 1, symmetric about 0; a scale without mantissa (E8M0) has
    neither zero nor subnormals.
    """

    name: str
    exponent: int
    """Bits of the exponent; 0 for integers."""
    mantissa: int
    """Bits of the mantissa, without the leading 1 that is not stored."""
    sign: int = 1
    """Bits of the sign: 1, or 0 for numbers above zero alone."""
    special: Special = "none"
    """Codes that are no number: `ieee`: the highest exponent is infinity and NaN; `nan`: all ones are NaN; `none`: none."""
    stored: str | None = None
    """The name of the type that torch casts to and from; None: torch has none that holds one number an element."""

    @property
    def dtype(self) -> torch.dtype | None:
        """The type that torch casts to and from."""
        import torch

        return None if self.stored is None else getattr(torch, self.stored)

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return self.sign + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is subtracted from the exponent field."""
        return 2 ** (self.exponent - 1) - 1 if self.exponent else 1 - self.mantissa

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number, below which the step stays as it is."""
        return 1 - self.bias if self.mantissa else -self.bias

    @property
    def largest(self) -> float:
        """The largest finite number."""
        codes = range(2 ** (self.bits - self.sign) - 1, 0, -1)
        skipped = {"ieee": 2**self.mantissa, "nan": 1, "none": 0}[self.special]
        return self.value(codes[skipped])

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with a full mantissa; of integers, 1."""
        return 2.0**self.least_exponent if self.exponent else self.smallest

    @property
    def smallest(self) -> float:
        """The smallest positive number: subnormal where there are such."""
        return 2.0 ** (self.least_exponent - self.mantissa)

    @property
    def step(self) -> float:
        """From 1 to the next number (ULP at 1)."""
        return 2.0 ** (max(0, self.least_exponent) - self.mantissa)

    @property
    def decades(self) -> float:
        """Dynamic range: log10(largest / smallest normal)."""
        return log10(self.largest) - log10(self.smallest_normal)

    def value(self, code: int) -> float:
        """The number that `code` stands for, 0 <= code < 2^bits: sign, exponent and mantissa from its highest bit down."""
        fraction = code % 2**self.mantissa
        power = (code >> self.mantissa) % 2**self.exponent
        negative = self.sign and code >> (self.bits - 1)
        if self.special == "ieee" and power == 2**self.exponent - 1:
            size = nan if fraction else inf
        elif self.special == "nan" and code % 2 ** (self.bits - self.sign) == 2 ** (self.bits - self.sign) - 1:
            size = nan
        elif power or not self.mantissa:
            size = 2.0 ** (power - self.bias) * (1 + fraction / 2**self.mantissa)
        else:
            size = 2.0 ** (1 - self.bias - self.mantissa) * fraction
        return -size if negative else size


FP64 = NumberFormat("fp64", 11, 52, special="ieee", stored="float64")
FP32 = NumberFormat("fp32", 8, 23, special="ieee", stored="float32")
TF32 = NumberFormat("tf32", 8, 10, special="ieee")
BF16 = NumberFormat("bf16", 8, 7, special="ieee", stored="bfloat16")
FP16 = NumberFormat("fp16", 5, 10, special="ieee", stored="float16")
E4M3 = NumberFormat("fp8_e4m3", 4, 3, special="nan", stored="float8_e4m3fn")
E5M2 = NumberFormat("fp8_e5m2", 5, 2, special="ieee", stored="float8_e5m2")
E3M2 = NumberFormat("fp6_e3m2", 3, 2)
E2M3 = NumberFormat("fp6_e2m3", 2, 3)
E2M1 = NumberFormat("fp4_e2m1", 2, 1)
E8M0 = NumberFormat("e8m0", 8, 0, sign=0, special="nan", stored="float8_e8m0fnu")
INT8 = NumberFormat("int8", 0, 7, stored="int8")
INT4 = NumberFormat("int4", 0, 3)
NUMBER_FORMATS = {
    format.name: format for format in (FP64, FP32, TF32, BF16, FP16, E4M3, E5M2, E3M2, E2M3, E2M1, E8M0, INT8, INT4)
}
