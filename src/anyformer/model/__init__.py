"""`Architecture`, the whole description; `Transformer`, the module built from it; `MultiScale`, a part of a U-Net."""

from anyformer.model.architecture import Architecture
from anyformer.model.initialise import materialise
from anyformer.model.multi_scale import MultiScale
from anyformer.model.shapes import decoder_only, encoder_decoder, encoder_only
from anyformer.model.transformer import Transformer, build
from anyformer.parts.lookup import InputError

__all__ = [
    "Architecture",
    "InputError",
    "MultiScale",
    "Transformer",
    "build",
    "decoder_only",
    "encoder_decoder",
    "encoder_only",
    "materialise",
]
