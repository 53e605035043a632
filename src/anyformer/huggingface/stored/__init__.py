"""Weights as they are stored: files, the formats that hold weights in few bits, and plain tensors of either."""

from anyformer.huggingface.stored.files import INDEX, PLAIN, WHOLE, TensorFiles
from anyformer.huggingface.stored.formats import READERS, StoredFormat, format_of
from anyformer.huggingface.stored.restored import Held, RestoredWeights, held_in
from anyformer.huggingface.stored.scheme import filled

__all__ = [
    "INDEX",
    "PLAIN",
    "READERS",
    "WHOLE",
    "Held",
    "RestoredWeights",
    "StoredFormat",
    "TensorFiles",
    "filled",
    "format_of",
    "held_in",
]
