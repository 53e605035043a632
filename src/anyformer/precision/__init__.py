"""Number formats: those of training as values, one of which a `Plan` holds, and rounding to any of them.

What needs torch is imported when it is first asked for, so that descriptions are read without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyformer.precision.fp16 import Fp16
from anyformer.precision.narrow import Fp8, Mxfp8, Nvfp4
from anyformer.precision.plain import Auto, Bf16, Fp32, Tf32
from anyformer.precision.precision import BYTES, Kind, Narrow, Number, Precision, Scaling
from anyformer.precision.pure_bf16 import PureBf16

if TYPE_CHECKING:
    from anyformer.precision.formats import (
        BF16,
        E2M1,
        E2M3,
        E3M2,
        E4M3,
        E5M2,
        E8M0,
        FP16,
        FP32,
        FP64,
        INT4,
        INT8,
        NUMBER_FORMATS,
        TF32,
        NumberFormat,
        rounded,
    )
    from anyformer.precision.scaling import (
        FP8_GRADIENT_ROW,
        FP8_GRADIENT_TENSOR,
        FP8_ROW,
        FP8_TENSOR,
        INT4_32,
        INT4_128,
        INT8_ROW,
        MXFP4,
        MXFP6_E2M3,
        MXFP6_E3M2,
        MXFP8,
        MXFP8_GRADIENT,
        NVFP4,
        SCALED_FORMATS,
        ScaledFormat,
        maximum,
        multiplier,
        scaled,
        scaled_rounded,
    )

ROOMS = ("formats", "scaling")
"""Modules of this package that need torch."""


def __getattr__(name: str) -> Any:
    """A name of one of the modules that need torch."""
    if name in __all__:
        for room in ROOMS:
            module = import_module(f"{__name__}.{room}")
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BF16",
    "BYTES",
    "E2M1",
    "E2M3",
    "E3M2",
    "E4M3",
    "E5M2",
    "E8M0",
    "FP8_GRADIENT_ROW",
    "FP8_GRADIENT_TENSOR",
    "FP8_ROW",
    "FP8_TENSOR",
    "FP16",
    "FP32",
    "FP64",
    "INT4",
    "INT4_32",
    "INT4_128",
    "INT8",
    "INT8_ROW",
    "MXFP4",
    "MXFP6_E2M3",
    "MXFP6_E3M2",
    "MXFP8",
    "MXFP8_GRADIENT",
    "NUMBER_FORMATS",
    "NVFP4",
    "SCALED_FORMATS",
    "TF32",
    "Auto",
    "Bf16",
    "Fp8",
    "Fp16",
    "Fp32",
    "Kind",
    "Mxfp8",
    "Narrow",
    "Number",
    "NumberFormat",
    "Nvfp4",
    "Precision",
    "PureBf16",
    "ScaledFormat",
    "Scaling",
    "Tf32",
    "maximum",
    "multiplier",
    "rounded",
    "scaled",
    "scaled_rounded",
]
