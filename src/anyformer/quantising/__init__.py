"""Weights in few bits: formats, their bytes, rounding, calibration, and matrices that any operation reads."""

from anyformer.quantising.calibrated import calibrated
from anyformer.quantising.formats import FORMATS, HALF, USUAL, Format, Grouped, Half, NormalFloat, Quantising
from anyformer.quantising.model import WHOLE, Report, dense, format_of, hold, quantisable, quantised
from anyformer.quantising.tensor import Packed, Quantised, format_named, restored, stored_bytes

__all__ = [
    "FORMATS",
    "HALF",
    "USUAL",
    "WHOLE",
    "Format",
    "Grouped",
    "Half",
    "NormalFloat",
    "Packed",
    "Quantised",
    "Quantising",
    "Report",
    "calibrated",
    "dense",
    "format_named",
    "format_of",
    "hold",
    "quantisable",
    "quantised",
    "restored",
    "stored_bytes",
]
