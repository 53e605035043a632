"""Suggestions for a mistyped name, by its words and numbers rather than by letters alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_WORDS = re.compile(r"[a-z]+|\d+")
_ALIKE = 0.65
"""The least share of common letters from which a name counts as a misspelling."""
_TIE = 0.04
"""Names are suggested whose share of common letters is this much smaller than that of the nearest."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to `name`, best first: all matches of the best kind that has any.

    The kinds, best first: names equal to it but for case and punctuation (`LLaMA-3-8B`); names that begin with it (`llama3`
    -> llama-3-8b, never llama-33b); names that it begins with (`bert-base-uncased` -> bert-base); names that contain it (`t5`
    -> flan-t5-xl); names spelled like it (`lama-12m`). Of `meta-llama/Llama-3.1-8B` the part after the slash counts.
    """
    typed = name.rsplit("/", 1)[-1].casefold()[:200]
    wanted = _words(typed)
    words = {known_name: _words(known_name.casefold()) for known_name in known}
    size = len(wanted)
    equal = [name for name, own in words.items() if own == wanted]
    if not wanted or equal:
        return equal if wanted else []
    longer = [name for name, own in words.items() if own[:size] == wanted or _begins(own, wanted)]
    if longer:
        return sorted(longer, key=lambda name: (words[name][:size] != wanted, _short_first(words[name])))
    shorter = [name for name, own in words.items() if own and wanted[: len(own)] == own]
    if shorter:
        most = max(len(words[name]) for name in shorter)
        return [name for name in shorter if len(words[name]) == most]
    containing = [name for name, own in words.items() if any(own[i : i + size] == wanted for i in range(len(own)))]
    if containing and len(typed) > 1:
        return sorted(containing, key=lambda name: _short_first(words[name]))
    alike = {name: difflib.SequenceMatcher(None, typed, name.casefold()).ratio() for name in words}
    best = max(alike.values(), default=0.0)
    if best < _ALIKE:
        return []
    return sorted((name for name in words if alike[name] >= best - _TIE), key=lambda name: -alike[name])


def _words(text: str) -> tuple[str, ...]:
    """Runs of letters and runs of digits: llama-3-8b -> llama 3 8 b."""
    return tuple(_WORDS.findall(text))


def _begins(words: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether the last wanted word is the beginning of a word, and the words before it are equal: deeps -> deepseek-v3."""
    last = len(wanted) - 1
    whole = words[:last] == wanted[:last] and len(words) > last
    return whole and len(wanted[last]) > 2 and wanted[last].isalpha() and words[last].startswith(wanted[last])


def _short_first(words: tuple[str, ...]) -> tuple[int, list[tuple[int, int, str]]]:
    """llama-3-8b before llama-3-70b before llama-3.1-8b: few words first, then numbers by size and before letters."""
    return len(words), [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]
