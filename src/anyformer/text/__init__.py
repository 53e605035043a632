"""How a model is spoken to: text to token numbers and back, and what its authors put around them. No torch."""

from anyformer.text.errors import DataError
from anyformer.text.specials import RoleName, Specials
from anyformer.text.streaming import StreamDecoder
from anyformer.text.tokenizers import Tokenizer

__all__ = ["DataError", "RoleName", "Specials", "StreamDecoder", "Tokenizer"]
