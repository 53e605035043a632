"""`Architecture`, the whole description, and its shapes; `MultiScale`, a part of a U-Net."""

from anyformer.model.architecture import Architecture
from anyformer.model.multi_scale import MultiScale
from anyformer.model.shapes import decoder_only, encoder_decoder, encoder_only

__all__ = [
    "Architecture",
    "MultiScale",
    "decoder_only",
    "encoder_decoder",
    "encoder_only",
]
