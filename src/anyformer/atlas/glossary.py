"""The words of the field, as the glossary of the guides explains them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GLOSSARY = Path(__file__).with_name("glossary.json")
"""Written by `python docs/make_help.py` from docs/glossary.md."""


@dataclass(frozen=True)
class GlossaryEntry:
    """Names of one thing, what it is, and the heading of a guide below which there is more."""

    names: tuple[str, ...]
    text: str
    place: str


@cache
def glossary() -> tuple[GlossaryEntry, ...]:
    """Every entry, in the order of the guide."""
    read = json.loads(GLOSSARY.read_text(encoding="utf-8"))
    return tuple(GlossaryEntry(tuple(each["names"]), each["text"], each["place"]) for each in read)


def explained(word: str) -> tuple[GlossaryEntry, ...]:
    """The entry of a word in any spelling, in the singular or plural; none if there is none."""
    return _by_singular().get(singular(word), ())


@cache
def _by_singular() -> dict[str, tuple[GlossaryEntry, ...]]:
    """The entries of every name, in whatever spelling it is asked for."""
    found: dict[str, tuple[GlossaryEntry, ...]] = {}
    for entry in glossary():
        for word in dict.fromkeys(map(singular, entry.names)):
            found[word] = (*found.get(word, ()), entry)
    return found


def letters(words: str) -> str:
    """Letters and digits alone, in which spellings agree: `KV-cache`, `kv_cache`."""
    return re.sub(r"[^a-zµ0-9]", "", words.lower())


def singular(word: str) -> str:
    """The letters of a word, without the s of a plural."""
    return letters(word).removesuffix("s")
