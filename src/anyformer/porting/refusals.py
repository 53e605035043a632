"""What a base refuses a configuration for, and the derivation that reads the rest of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from anyformer.huggingface.config import INERT
from anyformer.huggingface.vocabulary import KINDS, misfits
from anyformer.porting.derivation import Derivation

_NAMED = re.compile(r"\b(\w+) = ")
"""A key that a refusal speaks of."""
_MISSING = re.compile(r"\b(\w+) is missing")


def beside(derivation: Derivation, refusal: str, filled: Mapping[str, Any], table: Mapping[str, Any]) -> Derivation | None:
    """The derivation without what its base refuses the configuration for: entries of a table, or a key with its value; or with
    a key that is missing, as it is where another place of the base asks for it (`filled`), or else 1.

    None where the refusal is for something else.
    """
    for key, value in table.items():
        strange = tuple(_entries(derivation, refusal, value)) if isinstance(value, Mapping) and key not in INERT else ()
        if strange:
            pinned = {**derivation.pinned, key: value}
            return replace(derivation, aside=(*derivation.aside, *strange), pinned=pinned)
    lacking = _MISSING.search(refusal)
    if lacking is not None and lacking[1] not in derivation.absent and lacking[1] in KINDS:
        name = lacking[1]
        value = filled.get(name, 1)
        return None if list(misfits(name, value)) else replace(derivation, absent={**derivation.absent, name: value})
    strange_key = _strange(derivation, refusal, table)
    if strange_key is None:
        return None
    return replace(derivation, pinned={**derivation.pinned, strange_key: table[strange_key]})


def ours(key: str, derivation: Derivation) -> str:
    """The base's name of a key of the files."""
    return next((ours for ours, theirs in derivation.keys.items() if theirs == key), key)


def _entries(derivation: Derivation, refusal: str, value: Mapping[str, Any]) -> Iterator[str]:
    """The entries of a table that the base says mean nothing to it, or for whose values it refuses."""
    meaningless = set(re.findall(r"\w+", refusal.partition(" mean nothing")[0]))
    said = meaningless if "mean nothing" in refusal else _refused(refusal)
    yield from (name for name in value if name in said and name not in derivation.aside)


def _refused(refusal: str) -> set[str]:
    """The keys that a refusal names as those whose values it is for."""
    for_them = any(words in refusal for words in (" is not supported", ", but "))
    return set(_NAMED.findall(refusal)) if for_them else set()


def _strange(derivation: Derivation, refusal: str, table: Mapping[str, Any]) -> str | None:
    """The key whose value is, or whose table has, what the base refuses the configuration for."""
    refused = _refused(refusal)
    for key, value in table.items():
        name = ours(key, derivation)
        inside = value.values() if isinstance(value, Mapping) else (value,)
        words = [each for each in inside if isinstance(each, str)]
        said = any(repr(word) in refusal or json.dumps(word) in refusal for word in words)
        tried = key in INERT or key in derivation.pinned or name not in KINDS
        if (said or name in refused) and not tried and not list(misfits(name, value)):
            return key
    return None
