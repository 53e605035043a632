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


class Cleaning:
    """`cleaned` of a text that comes in pieces: what may begin something that loses its blanks is held back.

    `before`: the text in front of the first piece, which is not given again.
    """

    def __init__(self, before: str = "") -> None:
        self._held = dict.fromkeys(_CLEANED, "")
        self._given = len(cleaned(before))
        self._told = 0
        self.push(before)

    def push(self, text: str) -> str:
        """The text that is certain now."""
        if not text:
            return ""
        for spelt in _CLEANED:
            text = self._certain(spelt, self._held[spelt] + text)
        return self._new(text)

    def finish(self) -> str:
        """The rest."""
        text = ""
        for spelt in _CLEANED:
            text = (self._held[spelt] + text).replace(spelt, spelt.strip())
            self._held[spelt] = ""
        return self._new(text)

    def _certain(self, spelt: str, text: str) -> str:
        *parts, last = text.split(spelt)
        size = next((size for size in range(len(spelt) - 1, 0, -1) if last.endswith(spelt[:size])), 0)
        self._held[spelt] = last[len(last) - size :]
        return spelt.strip().join([*parts, last[: len(last) - size]])

    def _new(self, text: str) -> str:
        first = max(0, self._given - self._told)
        self._told += len(text)
        return text[first:]
