"""Windows that cover a long text."""

from __future__ import annotations

from typing import NamedTuple


class TokenSpan(NamedTuple):
    """Tokens start ... stop - 1 of a text."""

    start: int
    stop: int


def windows_of(length: int, size: int, overlap: int) -> list[TokenSpan]:
    """Windows of at most `size` tokens that cover a text, each beginning `size - overlap` after the one before."""
    found = [TokenSpan(0, min(size, length))]
    while found[-1].stop < length:
        start = found[-1].start + max(size - overlap, 1)
        found.append(TokenSpan(start, min(start + size, length)))
    return found
