"""The number formats of training as values, one of which a `Plan` holds. No torch here; what computes them is in `formats`,
`products` and `masters`."""

from anyformer.precision.fp16 import Fp16
from anyformer.precision.narrow import Fp8, Mxfp8, Nvfp4
from anyformer.precision.plain import Auto, Bf16, Fp32, Tf32
from anyformer.precision.precision import BYTES, Narrow, Number, Precision, Scaling
from anyformer.precision.pure_bf16 import PureBf16

__all__ = [
    "BYTES",
    "Auto",
    "Bf16",
    "Fp8",
    "Fp16",
    "Fp32",
    "Mxfp8",
    "Narrow",
    "Number",
    "Nvfp4",
    "Precision",
    "PureBf16",
    "Scaling",
    "Tf32",
]
