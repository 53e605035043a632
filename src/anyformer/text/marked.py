"""Text in which special tokens are spelled, as in a prompt that shows images: nothing else reads text so."""

from __future__ import annotations

from anyformer.text.chat.encoding import reading
from anyformer.text.tokenizers import Tokenizer


def encode_marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """As `tokenizer.encode`, but where the text spells a special token it is that token."""
    ids: list[int] = reading(tokenizer).encode(text).tokens.tolist()
    return ids
