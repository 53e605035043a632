"""`Architecture`, the whole description, and `Transformer`, the module it builds."""

from anyformer.model.architecture import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.model.transformer import Transformer, build, materialise
from anyformer.parts.embedding import InputError

__all__ = [
    "Architecture",
    "InputError",
    "Transformer",
    "build",
    "decoder_only",
    "encoder_decoder",
    "encoder_only",
    "materialise",
]
