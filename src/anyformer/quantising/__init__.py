"""Weights in few bits: formats, their bytes, rounding, calibration, and matrices that any operation reads."""

from anyformer.quantising.calibrated import calibrated
from anyformer.quantising.format import MatrixFormat, Quantising
from anyformer.quantising.formats import FORMATS, HALF, SINGLE, USUAL, plain_of
from anyformer.quantising.grouped import Grouped
from anyformer.quantising.joint import OutputSlice, joined, read_together
from anyformer.quantising.model import WHOLE, QuantisingReport, dense, format_of, held_as, hold, quantisable, quantised
from anyformer.quantising.normal_float import NormalFloat
from anyformer.quantising.plain import Plain
from anyformer.quantising.planes import materialise_few_bits, planes_of, put, set_apart, weights_of
from anyformer.quantising.tensor import PackedMatrix, Quantised, format_named, restored, stored_bytes

__all__ = [
    "FORMATS",
    "HALF",
    "SINGLE",
    "USUAL",
    "WHOLE",
    "Grouped",
    "MatrixFormat",
    "NormalFloat",
    "OutputSlice",
    "PackedMatrix",
    "Plain",
    "Quantised",
    "Quantising",
    "QuantisingReport",
    "calibrated",
    "dense",
    "format_named",
    "format_of",
    "held_as",
    "hold",
    "joined",
    "materialise_few_bits",
    "plain_of",
    "planes_of",
    "put",
    "quantisable",
    "quantised",
    "read_together",
    "restored",
    "set_apart",
    "stored_bytes",
    "weights_of",
]
