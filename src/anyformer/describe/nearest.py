"""Which of the known names a person may have meant, by words and numbers rather than by letters alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_WORDS = re.compile(r"[a-z]+|\d+")
_ALIKE = 0.65
"""Share of letters in common from which a name may be a slip of the pen."""
_TIE = 0.04
"""How much less alike than the nearest a name may be and still be suggested."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to `name`, best first: of the best kind of match that there is, all of them.

    In order: equal but for case and punctuation (`LLaMA-3-8B`); what begins with it (`llama3` -> llama-3-8b, never
    llama-33b); what it begins with (`bert-base-uncased` -> bert-base); what holds it (`t5` -> flan-t5-xl); what looks like it
    (`lama-12m`). Of an id of a hub, as `meta-llama/Llama-3.1-8B`, the part after the slash counts.
    """
    typed = name.rsplit("/", 1)[-1].casefold()[:200]
    asked, names = _words(typed), list(known)
    words = {each: _words(each.casefold()) for each in names}
    size = len(asked)
    equal = [each for each in names if words[each] == asked]
    if not asked or equal:
        return equal if asked else []
    begin = [each for each in names if words[each][:size] == asked]
    begin += [each for each in names if each not in begin and _begins(words[each], asked)]
    if begin:
        return sorted(begin, key=lambda each: (words[each][:size] != asked, _short_first(words[each])))
    shorter = [each for each in names if words[each] and asked[: len(words[each])] == words[each]]
    if shorter:
        most = max(len(words[each]) for each in shorter)
        return [each for each in shorter if len(words[each]) == most]
    holding = [each for each in names if any(words[each][i : i + size] == asked for i in range(len(words[each])))]
    if holding and len(typed) > 1:
        return sorted(holding, key=lambda each: _short_first(words[each]))
    alike = {each: difflib.SequenceMatcher(None, typed, each.casefold()).ratio() for each in names}
    best = max(alike.values(), default=0.0)
    if best < _ALIKE:
        return []
    return sorted((each for each in names if alike[each] >= best - _TIE), key=lambda each: -alike[each])


def _words(text: str) -> tuple[str, ...]:
    """Runs of letters and runs of digits: llama-3-8b -> llama 3 8 b."""
    return tuple(_WORDS.findall(text))


def _begins(words: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    """Whether the last word asked for is the beginning of a word, and those before it are equal: deeps -> deepseek-v3."""
    last = len(asked) - 1
    whole = words[:last] == asked[:last] and len(words) > last
    return whole and len(asked[last]) > 2 and asked[last].isalpha() and words[last].startswith(asked[last])


def _short_first(words: tuple[str, ...]) -> tuple[int, list[tuple[int, int, str]]]:
    """llama-3-8b before llama-3-70b before llama-3.1-8b: few words first, then numbers by size and before letters."""
    return len(words), [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words]
