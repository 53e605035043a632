"""The largest number at which what grows is still within a limit."""

from __future__ import annotations

from collections.abc import Callable


def last_within(limit: int, at: Callable[[int], int], below: int) -> int:
    """The largest n of 1, ..., `below` - 1 with at(n) <= `limit`, 0 where there is none; `at` never falls.

    Where it grows evenly six values find n: a line through two says where to look. Every third look is in the middle.
    """
    low, least = 1, at(1)
    if least > limit:
        return 0
    slope, high, looks = 0, below, 0
    while high - low > 1:
        looks += 1
        guess = 2 if looks == 1 else (low + high) // 2 if looks % 3 == 0 and high < below else _along(low, limit - least, slope)
        guess = min(max(guess, low + 1), high - 1, 32 * low)
        found = at(guess)
        slope = (found - least) // (guess - low)
        if found > limit:
            high = guess
        else:
            low, least = guess, found
    return low


def _along(start: int, room: int, slope: int) -> int:
    """The last number within room on a line."""
    return start + room // max(slope, 1)
