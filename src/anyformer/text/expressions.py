"""Regular expressions of a tokenizer that somebody else wrote: one that takes longer and longer on a run of characters is
refused when the tokenizer is read, since nothing stops the library once it encodes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from tokenizers import Regex, pre_tokenizers

from anyformer.text.bombs import library_limits
from anyformer.text.errors import DataError

LENGTHS = tuple(1 << power for power in range(5, 13))
"""Characters of the runs that are tried, one after the other."""
TIMES, SLACK = 150, 8
"""How many times longer an expression may take than one that splits after every character of the longest run: on the longest
run `TIMES`, since published ones whose time grows with the square take 50, and on shorter ones as much less as the square is,
but `SLACK` in any case. Whatever grows faster is found within a second."""
_TRIES = 4
"""How often an expression has to be slow before it is refused."""
_UNITS = ("a", "A1", " ", "\n", "!")
_LETTERS = 8
"""Letters of an expression that are repeated, too."""


def check_expressions(table: Mapping[str, Any]) -> None:
    """Refuse a definition with an expression that a run of characters keeps busy."""
    for place in ("normalizer", "pre_tokenizer", "decoder"):
        for expression in dict.fromkeys(_expressions(table.get(place))):
            if (found := _slow(expression)) is not None:
                raise DataError(
                    f"{place}: the regular expression {expression[:200]!r} takes longer and longer on a run of {found}; mend "
                    "the tokenizer.json"
                )


def _expressions(stage: Any) -> Iterator[str]:
    """Every regular expression in a stage and those within it."""
    if isinstance(stage, Mapping):
        if isinstance(found := stage.get("Regex"), str):
            yield found
        for each in stage.values():
            yield from _expressions(each)
    elif isinstance(stage, list):
        for each in stage:
            yield from _expressions(each)


@cache
def _slow(expression: str) -> str | None:
    """The run on which an expression is slow; None if there is none. An invalid one is the library's to refuse."""
    try:
        stage = pre_tokenizers.Split(Regex(expression), "isolated")
    except Exception:
        return None
    letters = "".join(dict.fromkeys(letter for letter in expression if letter.isalnum()))[:_LETTERS]
    # Something that is not expected, and all letters: without one that it asks for, the library does not even try.
    end = "\x01\n" + letters
    with _mute():
        for unit in dict.fromkeys((*_UNITS, *letters, letters or "a")):
            for length in LENGTHS:
                run, limit = unit * (length // len(unit)) + end, _limit(length)
                # Once a busy machine may interrupt, every time it does not.
                if all(_seconds(stage, run) > limit for _ in range(_TRIES)):
                    return f"{length:,} {unit!r}"
    return None


@contextmanager
def _mute() -> Iterator[None]:
    """The library prints a trace of its own where it gives up."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _seconds(stage: pre_tokenizers.PreTokenizer, text: str) -> float:
    """Processor time of splitting, which other work on the machine moves little; infinite where the library gives up."""
    began = time.thread_time()
    try:
        with library_limits():
            stage.pre_tokenize_str(text)
    except DataError:
        return float("inf")
    return time.thread_time() - began


def _limit(length: int) -> float:
    share = length / LENGTHS[-1]
    return max(SLACK, TIMES * share * share) * _usual()


@cache
def _usual() -> float:
    stage = pre_tokenizers.Split(Regex("."), "isolated")
    return min(_seconds(stage, "a" * LENGTHS[-1]) for _ in range(3))
