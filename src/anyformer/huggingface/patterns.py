"""Patterns with which a configuration names modules, matched in a bounded time: somebody else wrote them, and the names too."""

from __future__ import annotations

import regex

from anyformer.huggingface.errors import HuggingFaceError

SECONDS = 1.0
"""The longest time of one match; published patterns take microseconds."""


def check_pattern(pattern: str, where: str) -> None:
    """Refuse what is no regular expression."""
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise HuggingFaceError(f"{where}: {pattern[:200]!r} is no pattern ({error})") from None


def begins(pattern: str, module: str, where: str) -> bool:
    """Whether a module's name begins with what the pattern matches, as `re.match` has it.

    `where`: the file that has the pattern, for the `HuggingFaceError` raised for what is no pattern or takes longer
    than `SECONDS`.
    """
    check_pattern(pattern, where)
    try:
        return regex.match(pattern, module, timeout=SECONDS) is not None
    except TimeoutError:
        what = f"{pattern[:200]!r} takes over {SECONDS:g} s on {module[:200]!r}"
        raise HuggingFaceError(f"{where}: the pattern {what}; write it without backtracking") from None


def ends(pattern: str, module: str, where: str) -> bool:
    """Whether a module's name, or what follows one of its dots, is what the pattern matches; PEFT's `get_pattern_key`."""
    return begins(rf"(.*\.)?({pattern})$", module, where)
