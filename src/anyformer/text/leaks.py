"""Special tokens that a model would make from plain text, because its own vocabulary has them (Unigram does), kept from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import tokenizers

from anyformer.text.errors import DataError


@dataclass(frozen=True)
class Leaks:
    """`words`: the special tokens as text spells them, but for the unknown one, which text may give; `numbers`: theirs.

    A normaliser may turn other text into such a word (`＜/s＞`, by NFKC), so what comes out is looked at too.
    """

    words: re.Pattern[str]
    numbers: frozenset[int]

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer, unknown: int | None) -> Self | None:
        """Those of a tokenizer; None if it has none."""
        added = inner.get_added_tokens_decoder()
        specials = {number: token.content for number, token in added.items() if token.special and len(token.content) > 1}
        leaking = {number: word for number, word in specials.items() if number != unknown and number in _ids(inner, word)}
        if not leaking:
            return None
        return cls(re.compile("|".join(map(re.escape, leaking.values()))), frozenset(leaking))

    def touch(self, text: str) -> bool:
        """Whether a text spells one of the words."""
        return self.words.search(text) is not None

    def encode(self, inner: tokenizers.Tokenizer, text: str) -> list[int]:
        """Tokens of text, each word that would become a special token encoded in two halves."""
        return [number for piece in self.pieces(inner, text) for number in _ids(inner, piece)]

    def pieces(self, inner: tokenizers.Tokenizer, text: str) -> list[str]:
        """The pieces of a text that are encoded alone, so that none gives a special token."""
        cut = _cut(text, [match.start() + 1 for match in self.words.finditer(text)])
        return [part for piece in cut for part in self._checked(inner, piece)]

    def _checked(self, inner: tokenizers.Tokenizer, text: str) -> list[str]:
        encoded = inner.encode(text, add_special_tokens=False)
        spans = [span for number, span in zip(encoded.ids, encoded.offsets, strict=True) if number in self.numbers]
        if not spans:
            return [text]
        if any(end - start < 2 for start, end in spans):
            raise DataError(f"this tokenizer makes a special token of the text {text[:60]!r}; leave out the rare characters")
        pieces = _cut(text, [start + 1 for start, _ in spans])
        return [part for piece in pieces for part in self._checked(inner, piece)]


def _cut(text: str, places: list[int]) -> list[str]:
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def _ids(inner: tokenizers.Tokenizer, text: str) -> list[int]:
    ids: list[int] = inner.encode(text, add_special_tokens=False).ids
    return ids
