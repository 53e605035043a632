"""Weights in few bits: formats, their bytes, rounding, calibration, and matrices that any operation reads."""

from anyformer.quantising.format import MatrixFormat, Quantising
from anyformer.quantising.formats import FORMATS, HALF, SINGLE, USUAL, plain_of
from anyformer.quantising.grouped import Grouped
from anyformer.quantising.normal_float import NormalFloat
from anyformer.quantising.plain import Plain

__all__ = [
    "FORMATS",
    "HALF",
    "SINGLE",
    "USUAL",
    "Grouped",
    "MatrixFormat",
    "NormalFloat",
    "Plain",
    "Quantising",
    "plain_of",
]
