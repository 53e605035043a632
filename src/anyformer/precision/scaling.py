"""Numbers that share a scale, so that a narrow format holds them: per tensor, per row, or per block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anyformer.precision.formats import E2M1, E2M3, E3M2, E4M3, E5M2, E8M0, FP32, INT4, INT8, NumberFormat

Per = Literal["tensor", "row", "block"]


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
