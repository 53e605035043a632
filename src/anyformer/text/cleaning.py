"""Blanks before punctuation and clitics, taken out of decoded text where a tokenizer asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import tokenizers
from tokenizers import models

_CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""What loses its blanks, in this order."""


def cleans(config: Mapping[str, Any], inner: tokenizers.Tokenizer) -> bool:
    """Whether transformers cleans what this tokenizer decodes: byte pairs, whose blanks are tokens, stay as they are."""
    asked = bool(config.get("clean_up_tokenization_spaces"))
    even = bool(config.get("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"))
    return asked and (even or not isinstance(inner.model, models.BPE))


def cleaned(text: str) -> str:
    """The text without the blanks."""
    return reduce(lambda held, spelt: held.replace(spelt, spelt.strip()), _CLEANED, text)
