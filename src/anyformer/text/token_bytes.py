"""The bytes that each token of a vocabulary adds to a text."""

from __future__ import annotations

import json
import re

from anyformer.text.lookup import byte_letters
from anyformer.text.tokenizers import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """By number: what a token adds behind another one, by its name where it is special; empty where a number has no token."""
    special = {number: word for word, number in tokenizer.special_tokens.items()}
    falls_back = bool(json.loads(tokenizer.definition)["model"].get("byte_fallback"))
    letters, found = byte_letters(), list[bytes]()
    before = tokenizer.encode("a")[-1:]
    known = len(tokenizer.decode(before, clean=False))
    for number in range(tokenizer.vocab_size):
        word = special.get(number) or tokenizer.token(number)
        if word is None or number in special:
            found.append((word or "").encode())
        elif tokenizer.byte_level:
            plain = any(letter not in letters for letter in word)
            found.append(word.encode() if plain else bytes(letters[letter] for letter in word))
        elif falls_back and (byte := _BYTE.fullmatch(word)) is not None:
            found.append(bytes([int(byte[1], 16)]))
        else:
            found.append(tokenizer.decode([*before, number], clean=False)[known:].encode())
    return found
