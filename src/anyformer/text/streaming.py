"""Decoding tokens one by one, as they are generated."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from anyformer.text.cleaning import Cleaning
from anyformer.text.lookup import byte_letters
from anyformer.text.tokenizers import Tokenizer

_BYTES = byte_letters()


class StreamDecoder:
    """`push` returns the text that a token completes, `finish` the rest. Together they are what `tokenizer.decode` of all
    tokens has behind that of the tokens `before` them (for tokenizers that are not byte-level: as long as the tokens spell
    valid UTF-8).

    A character is held back until its last byte. Special tokens have no text, unless `special`.
    """

    _NEAR = 8
    """Tokens before that the blanks behind them may depend on, and more."""

    def __init__(self, tokenizer: Tokenizer, *, before: Sequence[int] = (), special: bool = False) -> None:
        make = _Bytes if tokenizer.byte_level else _DecodedWindow
        self._decoder: _Bytes | _DecodedWindow = make(tokenizer, before, special)
        last = tokenizer.decode(before[-self._NEAR :], special=special, clean=False) if tokenizer.cleans else ""
        self._cleaning = Cleaning(last) if tokenizer.cleans else None

    def push(self, token: int) -> str:
        """The text that `token` completes, often a whole word, sometimes nothing."""
        text = self._decoder.push(token)
        return text if self._cleaning is None else self._cleaning.push(text)

    def finish(self) -> str:
        """The rest: U+FFFD per unfinished character. The decoder is then as new."""
        text = self._decoder.finish()
        return text if self._cleaning is None else self._cleaning.push(text) + self._cleaning.finish()


class _Bytes:
    """Byte-level tokens spell bytes, so UTF-8's incremental decoder knows which characters are complete."""

    _LONGEST = 4
    """Tokens before that an unfinished character may have, and more: a character has four bytes."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], special: bool) -> None:
        self._tokenizer = tokenizer
        self._silent = frozenset[int]() if special else frozenset(tokenizer.special_tokens.values())
        self._decoder, self._told = codecs.getincrementaldecoder("utf-8")("replace"), False
        for token in before[-self._LONGEST :]:
            self.push(token)
        # Of a character that the tokens before begin, and no other finishes, their own text has the replacement.
        self._told = bool(self._decoder.getstate()[0])

    def push(self, token: int) -> str:
        if token in self._silent or (word := self._tokenizer.token(token)) is None:
            return ""
        # A letter that spells no byte comes from a token added as plain text.
        plain = any(letter not in _BYTES for letter in word)
        return self._new(self._decoder.decode(word.encode() if plain else bytes(_BYTES[letter] for letter in word)))

    def finish(self) -> str:
        return self._new(self._decoder.decode(b"", final=True))

    def _new(self, text: str) -> str:
        if text and self._told:
            self._told = False
            return text.removeprefix("\ufffd")
        return text


class _DecodedWindow:
    """Any other decoder: decode the last tokens again together with the new ones, and return the text that was added."""

    _LONGEST = 8
    """Tokens held back at most: a character has four bytes, the rest is margin."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], special: bool) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._context = self._last(before)
        self._waiting: list[int] = []

    def push(self, token: int) -> str:
        self._waiting.append(token)
        text = self._rest()
        if not text or (text.endswith("\ufffd") and len(self._waiting) < self._LONGEST):
            return ""
        # The context begins with a whole character, because the text before it was complete.
        self._context, self._waiting = self._waiting, []
        return text

    def finish(self) -> str:
        text = self._rest()
        self._context, self._waiting = [], []
        return text

    def _rest(self) -> str:
        before = self._decoded(self._context)
        return self._decoded([*self._context, *self._waiting])[len(before) :]

    def _decoded(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens, special=self._special, clean=False)

    def _last(self, before: Sequence[int]) -> list[int]:
        """The last tokens before, beginning with a whole character, and with one that has text: blanks depend on it."""
        first = len(before)
        while first > 0 and (not (text := self._decoded(before[first:])) or text.startswith("\ufffd")):
            first -= 1
        return list(before[first:])
