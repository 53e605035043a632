"""Decoding tokens one by one, as they are generated."""

from __future__ import annotations

import codecs

from anyformer.text.lookup import byte_letters
from anyformer.text.tokenizers import Tokenizer

_BYTES = byte_letters()


class StreamDecoder:
    """`push` returns the text that a token completes, `finish` the rest. Together they are `tokenizer.decode` of all tokens
    (for tokenizers that are not byte-level: as long as the tokens spell valid UTF-8).

    A character is held back until its last byte. Special tokens have no text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decoder: _Bytes | _Window = _Bytes(tokenizer) if tokenizer.byte_level else _Window(tokenizer)

    def push(self, token: int) -> str:
        """The text that `token` completes, often a whole word, sometimes nothing."""
        return self._decoder.push(token)

    def finish(self) -> str:
        """The rest: U+FFFD for each unfinished character. The decoder is then as new."""
        return self._decoder.finish()


class _Bytes:
    """Byte-level tokens spell bytes, so UTF-8's incremental decoder knows which characters are complete."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.special_tokens.values())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        if token in self._special or (word := self._tokenizer.token(token)) is None:
            return ""
        # A letter that spells no byte comes from a token added as plain text.
        plain = any(letter not in _BYTES for letter in word)
        return self._decoder.decode(word.encode() if plain else bytes(_BYTES[letter] for letter in word))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _Window:
    """Any other decoder: decode the last tokens again together with the new ones, and return the text that was added."""

    _LONGEST = 8
    """Tokens held back at most: a character has four bytes, the rest is margin."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []
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
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode([*self._context, *self._waiting])[len(before) :]
