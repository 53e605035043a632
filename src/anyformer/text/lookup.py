"""Tokenizers of single characters or bytes: a table, a hundred times faster than the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anyformer.text.errors import DataError


def byte_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: printable Latin-1 stands for itself, the others for U+0100 and on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


@dataclass(frozen=True, eq=False)
class CodeTable:
    """`table[code]` is the token of a byte or code point, -1 where there is none; the last entry serves all larger codes."""

    table: NDArray[np.int64]
    bytes: bool

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Self | None:
        """The table of a `tokenizer.json` that merges nothing and changes nothing; None for any other."""
        model, words = definition["model"], definition.get("pre_tokenizer")
        if model.get("type") != "BPE" or model.get("merges") or model.get("byte_fallback") or definition.get("normalizer"):
            return None
        whole = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        if words is not None and not whole.items() <= words.items():
            return None
        letters = byte_letters() if words else None
        codes = {letters[word] if letters else ord(word): number for word, number in _singles(model["vocab"], letters)}
        if not codes or (letters and len(codes) < 256):
            return None
        table = np.full(max(codes) + 2, model["vocab"].get(model.get("unk_token"), -1), dtype=np.int64)
        table[list(codes)] = list(codes.values())
        return cls(table, bytes=letters is not None)

    def encode(self, text: str) -> NDArray[np.uint32]:
        """The tokens of `text`; `DataError` names the characters without a token."""
        codes = np.frombuffer(text.encode(), np.uint8) if self.bytes else np.frombuffer(text.encode("utf-32-le"), "<u4")
        tokens: NDArray[np.int64] = self.table[np.minimum(codes.astype(np.int64), len(self.table) - 1)]
        if (tokens < 0).any():
            raise _unknown(text, tokens < 0)
        return tokens.astype(np.uint32)


def _singles(vocabulary: Mapping[str, int], letters: Mapping[str, int] | None) -> list[tuple[str, int]]:
    return [(word, number) for word, number in vocabulary.items() if len(word) == 1 and (letters is None or word in letters)]


def _unknown(text: str, missing: NDArray[np.bool_]) -> DataError:
    places = np.flatnonzero(missing)
    names = ", ".join(f"{letter!r} (U+{ord(letter):04X})" for letter in sorted({text[place] for place in places})[:8])
    first = int(places[0])
    return DataError(
        f"this tokenizer has no {names}, as in {text[max(0, first - 20) : first + 20]!r}; leave such characters out, "
        "or use tokenizer kind 'bytes' or 'byte_pairs', or 'characters' with unknown = 'replace'"
    )
