"""Weights in few bits: formats, their bytes, rounding, calibration, and matrices that any operation reads."""

from anyformer.quantising.calibrated import calibrated
from anyformer.quantising.formats import FORMATS, USUAL, Format, Grouped, NormalFloat, Quantising
from anyformer.quantising.model import Report, dense, format_of, quantisable, quantised, with_quantised
from anyformer.quantising.tensor import Quantised, format_named, restored, stored_bytes

__all__ = [
    "FORMATS",
    "USUAL",
    "Format",
    "Grouped",
    "NormalFloat",
    "Quantised",
    "Quantising",
    "Report",
    "calibrated",
    "dense",
    "format_named",
    "format_of",
    "quantisable",
    "quantised",
    "restored",
    "stored_bytes",
    "with_quantised",
]
