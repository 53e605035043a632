"""Neighbouring units in pieces: with as even work as can be, or with as many layers each."""

from __future__ import annotations

from collections.abc import Sequence


def even_pieces(each: int, parts: int) -> list[int]:
    """Ends of pieces of `each` layers, what is before and after them in the first and the last."""
    return [*(1 + each * part for part in range(1, parts)), 2 + each * parts]


def partition(work: Sequence[int], parts: int) -> list[int]:
    """Ends of `parts` neighbouring pieces, none empty, the largest as small as possible."""
    # `bisect` takes no range as long as the FLOPs of long sequences.
    low, high = max(work), sum(work)
    while low < high:
        middle = (low + high) // 2
        if len(_filled(work, middle, parts)) <= parts:
            high = middle
        else:
            low = middle + 1
    return _filled(work, low, parts)


def _filled(work: Sequence[int], limit: int, parts: int) -> list[int]:
    """Ends of pieces filled up to `limit` one by one, with a unit left per later piece."""
    ends: list[int] = []
    inside = 0
    for i, size in enumerate(work):
        empty = i == (ends[-1] if ends else 0)
        if not empty and (inside + size > limit or len(work) - i < parts - len(ends)):
            ends.append(i)
            inside = 0
        inside += size
    return [*ends, len(work)]
