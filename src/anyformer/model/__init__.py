"""`Architecture`, the whole description, and `Transformer`, the module it builds."""

from anyformer.model.architecture import Architecture, decoder_only, encoder_decoder, encoder_only
from anyformer.model.initialise import materialise
from anyformer.model.transformer import InputError, Transformer, build

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
