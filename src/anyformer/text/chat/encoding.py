"""The text of a chat as tokens: special tokens where the template writes them, plain text where they are said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tokenizers
from numpy.typing import NDArray

from anyformer.text.bombs import library_limits
from anyformer.text.chat.program import Span
from anyformer.text.chat.rendering import spelling
from anyformer.text.definition import library, text_of
from anyformer.text.errors import DataError, check_unicode
from anyformer.text.tokenizers import TokenArray, Tokenizer

_NAMES = 0xF0000
"""The first of the letters for private use that stand for special tokens in a text which spells them too."""


@dataclass(frozen=True)
class Encoded:
    """Tokens, and (n, 2) the characters that each stands for, from the first to behind the last."""

    tokens: TokenArray
    offsets: NDArray[np.int64]

    def mask(self, spans: Sequence[Span]) -> NDArray[np.bool_]:
        """The tokens of some spans: from that with the first character to that with the last, as transformers finds them.

        A character that no token stands for is passed over.
        """
        inside = np.zeros(len(self.tokens), dtype=bool)
        for begin, end in spans:
            if begin < end:
                inside[self._at(begin, later=True) : self._at(end - 1, later=False) + 1] = True
        return inside

    def _at(self, character: int, later: bool) -> int:
        """The first token that stands for a character; if none does, the next `later` one, or the one before."""
        starts, ends = self.offsets[:, 0], self.offsets[:, 1]
        found = np.flatnonzero((starts <= character) & (character < ends))
        if len(found):
            return int(found[0])
        return int(np.searchsorted(starts, character)) if later else int(np.searchsorted(starts, character, "right")) - 1


@dataclass(frozen=True)
class ChatTokenizer:
    """A tokenizer that makes special tokens of text, `whole`; and one that makes them of letters for private use alone."""

    whole: tokenizers.Tokenizer
    added: re.Pattern[str]
    """What becomes a token of its own wherever it is spelt, but for white space (Gemma's)."""
    special: re.Pattern[str]
    letters: Mapping[str, str]
    """Special token -> its letter."""
    definition: str

    @library_limits()
    def encode(self, text: str, spelt: Sequence[int] = ()) -> Encoded:
        """The tokens of a text; `spelt`: where it spells special tokens that are none."""
        return self._plain(text) if not spelt else self._guarded(text, frozenset(spelt))

    def _plain(self, text: str) -> Encoded:
        check_unicode(text)
        found = self.whole.encode(text, add_special_tokens=False)
        return Encoded(np.array(found.ids, np.uint32), np.array(found.offsets, np.int64).reshape(-1, 2))

    def _guarded(self, text: str, spelt: frozenset[int]) -> Encoded:
        """As `_plain`, of a text in which letters stand for the special tokens, and words that spell them for themselves."""
        check_unicode(text)
        used = set(self.letters.values()) & set(text)
        if used:
            raise DataError(f"a chat spells a special token and has U+{ord(min(used)):X}, which stands for one: leave it out")
        parts: list[str] = []
        places: list[NDArray[np.int64]] = []
        at = 0
        for begin, end in self._written(text, spelt):
            parts += [text[at:begin], self.letters[text[begin:end]]]
            places += [np.arange(at, begin), np.array([begin])]
            at = end
        parts.append(text[at:])
        places.append(np.arange(at, len(text) + 1))
        inner, words = _guarding(self.definition, tuple(self.letters.items()))
        numbers = {number: self.whole.token_to_id(word) for number, word in words.items()}
        found = inner.encode("".join(parts), add_special_tokens=False)
        ids, offsets = np.array(found.ids, np.int64), np.array(found.offsets, np.int64).reshape(-1, 2)
        held = frozenset(ids.tolist()) - numbers.keys()
        word = next((word for word in self.letters if self.whole.token_to_id(word) in held), None)
        if word is not None:
            raise DataError(f"a chat spells {word!r}, which this tokenizer makes a special token of even as text: leave it out")
        tokens = np.array([numbers.get(number, number) for number in ids.tolist()], np.uint32)
        return Encoded(tokens, np.concatenate(places)[offsets])

    def _written(self, text: str, spelt: frozenset[int]) -> list[Span]:
        """The special tokens that a text spells, but for those at `spelt`."""
        found, at = [], 0
        while (match := self.special.search(text, at)) is not None:
            if match.start() in spelt:
                at = match.start() + 1
            else:
                found.append(match.span())
                at = match.end()
        return found


def reading(tokenizer: Tokenizer) -> ChatTokenizer:
    """How a tokenizer reads a text with special tokens in it."""
    return _reading(tokenizer.completed)


@lru_cache(maxsize=8)
def _reading(completed: str) -> ChatTokenizer:
    inner = library(completed)
    added = inner.get_added_tokens_decoder().values()
    special = tuple(token.content for token in added if token.special)
    letters = {word: chr(_NAMES + number) for number, word in enumerate(special)}
    words = tuple(token.content for token in added if not token.content.isspace())
    return ChatTokenizer(inner, spelling(words), spelling(special), letters, completed)


@lru_cache(maxsize=4)
def _guarding(definition: str, letters: tuple[tuple[str, str], ...]) -> tuple[tokenizers.Tokenizer, Mapping[int, str]]:
    """A tokenizer whose special tokens are spelt by single letters, and the added tokens by its numbers for them."""
    table, names = json.loads(definition), dict(letters)
    spelt = {token["content"]: names.get(token["content"], token["content"]) for token in table["added_tokens"]}
    table["added_tokens"] = [{**token, "content": spelt[token["content"]]} for token in table["added_tokens"]]
    inner = library(text_of(table))
    numbers = inner.get_vocab(with_added_tokens=True)
    return inner, {numbers[letter]: word for word, letter in spelt.items()}
