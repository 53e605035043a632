"""Regular expressions over what a model wrote, matched within a time."""

from __future__ import annotations

from typing import Annotated

import regex
from pydantic import AfterValidator, Field

SECONDS = 5.0
"""The longest time of one match; past it the expression backtracks without end, and nothing is found."""


def _compiles(pattern: str) -> str:
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:200]!r} is no regular expression ({error}): mend it") from None
    return pattern


Expression = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
"""A regular expression as the package `regex` reads it, which is that of Python with more."""


def found(pattern: str, text: str, *, last: bool = False) -> tuple[regex.Match[str] | None, bool]:
    """The first match in a text, or the last that is found from its beginning on; and whether the search took too long."""
    try:
        if not last:
            return regex.search(pattern, text, timeout=SECONDS), False
        every = list(regex.finditer(pattern, text, timeout=SECONDS))
    except TimeoutError:
        return None, True
    return (every[-1] if every else None), False
