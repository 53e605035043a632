"""What mechanisms are called: by their names in singular or plural, by what stands in brackets, by initials, by their word."""

from __future__ import annotations

import re
from functools import cache

from anyformer.atlas.holders import holders
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.topic import mechanisms
from anyformer.describe import UserError, did_you_mean
from anyformer.describe.nearest import nearest

SPEAKING = ("norm", "position", "activation", "attention", "window", "stability", "training")
"""Columns whose words say what they mean without the column's name."""
SHORTEST = 3
"""Letters of initials at least."""
MOST = 3
"""Mechanisms that a word of their names leads to, at most."""


def mechanisms_called(words: str) -> tuple[Mechanism, ...]:
    """The mechanisms of a name in any spelling: `GQA`, `sliding window`, `rotary positions (RoPE)`; none if there is none.

    Those whose own name it is go before those that are otherwise called so.
    """
    wanted = _letters(words)
    if not wanted:
        return ()
    named = tuple(each for each in mechanisms() if wanted in _names(each.name))
    return named or tuple(each for each in mechanisms() if wanted in _otherwise(each))


def mechanisms_with(words: str) -> tuple[Mechanism, ...]:
    """The mechanisms with some words in their names, in singular or plural: `sliding`; none where they are in too many."""
    wanted = {_letters(word) for word in words.split()} - {""}
    found = tuple(each for each in mechanisms() if wanted and wanted <= set(map(_letters, re.findall(r"[\w²]+", each.name))))
    return found if len(found) <= MOST else ()


def entries_with(words: str) -> frozenset[str]:
    """The names of the entries that have a mechanism which is called so. Raises `UserError` where none is."""
    found = mechanisms_called(words)
    if not found:
        near = did_you_mean(words, known) if nearest(words, known := [each.name for each in mechanisms()]) else ""
        raise UserError(f"no mechanism is called {words!r}, of those that `anyformer atlas TOPIC` names{near}")
    return frozenset(entry.name for each in found for entry in holders(each).entries)


@cache
def _names(name: str) -> frozenset[str]:
    """A name as a whole, without what stands in brackets, and that alone: `multi-head attention (MHA)`."""
    outside, _, inside = name.removesuffix(")").partition(" (")
    return frozenset(filter(None, map(_letters, (name, outside, inside))))


@cache
def _otherwise(mechanism: Mechanism) -> frozenset[str]:
    """Initials, as MoE; and the word in the table of entries."""
    words = re.findall(r"[a-z0-9]+", mechanism.name.partition(" (")[0].lower())
    initials = "".join(word[0] for word in words)
    word = _letters(mechanism.word) if mechanism.column in SPEAKING else ""
    return frozenset({*([initials] if len(words) >= SHORTEST else []), *([word] if word else [])})


def _letters(words: str) -> str:
    """Letters and digits alone, every word in the singular."""
    return "".join(word.removesuffix("s") or word for word in re.findall(r"[a-z0-9²]+", words.lower()))
