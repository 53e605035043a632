"""The text of single tokens, with the white space that they stand for."""

from __future__ import annotations

import json

from anyformer.text.lookup import byte_letters
from anyformer.text.tokenizers import Tokenizer


def pieces(tokenizer: Tokenizer) -> list[str]:
    """The text of each token of the vocabulary, with a blank in front where it begins a word; empty for special tokens.

    Bytes that are no whole character become U+FFFD.
    """
    definition = json.loads(tokenizer.definition)
    decoder, model = (definition.get("decoder") or {}).get("type"), definition["model"].get("type")
    special, letters = frozenset(tokenizer.special_tokens.values()), byte_letters()
    texts = []
    for number in range(tokenizer.vocab_size):
        word = tokenizer.token(number)
        if word is None or number in special:
            texts.append("")
        elif tokenizer.byte_level:
            spelt = all(letter in letters for letter in word)
            texts.append(bytes(letters[letter] for letter in word).decode("utf-8", "replace") if spelt else word)
        elif decoder == "WordPiece":
            texts.append(word.removeprefix("##") if word.startswith("##") else f" {word}")
        elif model == "WordLevel":
            texts.append(f" {word}")
        else:
            texts.append(word.replace("\u2581", " "))
    return texts
