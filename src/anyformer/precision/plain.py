"""Precisions in which every product has one format: chosen by the machine, fp32, TF32 and bf16."""

from __future__ import annotations

from typing import ClassVar, Literal

from anyformer.precision.precision import Number, Precision


class Auto(Precision):
    """The faster of fp32 and bf16: a run measures a matrix product in both on its machine. Prices without a machine are for
    bf16, the format that figures are quoted in."""

    kind: Literal["auto"] = "auto"
    number: ClassVar[Number] = "bf16"
    unit: ClassVar[str] = "bf16"


class Fp32(Precision):
    """Everything in fp32."""

    kind: Literal["fp32"] = "fp32"


class Tf32(Precision):
    """fp32, whose products read their operands rounded to 10 bits of mantissa: TF32, of NVIDIA GPUs since Ampere.

    The exponent is that of fp32 and sums are in fp32. Weights, gradients and activations stay fp32 in memory. Refused on a
    device without such units.
    """

    kind: Literal["tf32"] = "tf32"
    unit: ClassVar[str] = "tf32"


class Bf16(Precision):
    """Weights, gradients and the optimiser in fp32; products and the residual stream in bfloat16 (autocast)."""

    kind: Literal["bf16"] = "bf16"
    number: ClassVar[Number] = "bf16"
    unit: ClassVar[str] = "bf16"
