"""`Architecture`, the whole description, and its shapes; `MultiScale`, a part of a U-Net; `TwoTowers`, texts beside images."""

from anyformer.model.architecture import Architecture
from anyformer.model.multi_scale import MultiScale
from anyformer.model.shapes import decoder_only, dictionary_alone, encoder_decoder, encoder_only
from anyformer.model.two_towers import TwoTowers

__all__ = [
    "Architecture",
    "MultiScale",
    "TwoTowers",
    "decoder_only",
    "dictionary_alone",
    "encoder_decoder",
    "encoder_only",
]
