"""Text in which special tokens are spelled, as in a prompt that shows images: nothing else reads text so."""

from __future__ import annotations

import json

import tokenizers

from anyformer.text.definition import complete, text_of
from anyformer.text.tokenizers import Tokenizer


def encode_marked(tokenizer: Tokenizer, text: str) -> list[int]:
    """As `tokenizer.encode`, but where the text spells a special token it is that token."""
    tokenizer.encode(text)  # refuses what is no text
    whole = tokenizers.Tokenizer.from_str(text_of(complete(json.loads(tokenizer.definition), tokenizer.config)))
    whole.no_truncation()
    whole.no_padding()
    ids: list[int] = whole.encode(text, add_special_tokens=False).ids
    return ids
