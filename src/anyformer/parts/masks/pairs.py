"""The number of (query, key) pairs that a mask allows, in a time that does not grow with the length.

The keys of a query lie between edges, positions that are constant or grow with the query. For the queries of one class, which
are equal modulo the mask's period P, edges move in steps of P, so that the number of keys grows linearly from one crossing of
two edges to the next: an arithmetic series, of which only the two ends are counted. O(P) for any length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import numpy as np

from anyformer.describe import UserError
from anyformer.parts.masks.ranges import Integers, Ranges

AT_ONCE = 1 << 13
"""Queries, or classes of queries, in one array."""
MOST_QUERIES = 1 << 24
"""The most queries that are counted one by one: a longer period is refused."""


class Repeating(Protocol):
    """The part of a mask that counting reads."""

    @property
    def written(self) -> str: ...
    def ranges(self, query: Integers, keys: int, prefix: int = 0) -> Ranges: ...
    def period(self, keys: int) -> int: ...


class TooLongError(UserError):
    """The period of a mask is too long to count its pairs."""


@lru_cache(maxsize=1024)
def pairs_with_blocks(queries: int, size: int) -> int:
    """Pairs of a position u = 0 ... queries - 1 and a whole block of `size` before it: the sum of u // size."""
    whole, rest = divmod(queries, size)
    return size * whole * (whole - 1) // 2 + rest * whole


def count_pairs(mask: Repeating, past: int, keys: int, prefix: int, most: int | None = None) -> int:
    """Pairs of the queries `past` ... keys - 1 with the keys 0 ... keys - 1, remembered: they are asked for again and again.

    `most`: no query has more, whatever the mask allows.
    """
    period, count = mask.period(keys), keys - past
    one_by_one = count < max(2 * period, AT_ONCE)
    if (count if one_by_one else period) > MOST_QUERIES:
        raise TooLongError(
            f"the mask {mask.written} repeats itself after {period:,} positions, too many to count {count:,} queries; "
            f"give sizes with a smaller common multiple, or a length below {MOST_QUERIES:,}"
        )
    if one_by_one:
        return sum(_bounded(mask.ranges(queries, keys, prefix), most) for queries in _pieces(past, keys))
    return sum(_of_classes(mask, first, period, keys, prefix, most) for first in _pieces(past, past + period))


def _bounded(ranges: Ranges, most: int | None) -> int:
    return ranges.pairs if most is None else int(np.minimum(ranges.counts(), most).sum())


def _pieces(start: int, stop: int) -> Iterator[Integers]:
    for at in range(start, stop, AT_ONCE):
        yield np.arange(at, min(at + AT_ONCE, stop), dtype=np.int64)


def _of_classes(mask: Repeating, first: Integers, period: int, keys: int, prefix: int, most: int | None) -> int:
    """Pairs of the queries first, first + P, first + 2 P, ... below `keys`, at most so many of each; `first`: (classes,)."""
    members = -((first - keys) // period)
    starts = _starts(mask.ranges(first, keys, prefix), mask.ranges(first + period, keys, prefix), first, period, keys)
    starts = np.sort(np.clip(starts, 0, members), axis=0)
    stops = np.concatenate([starts[1:], members[None]])
    filled = stops > starts
    origin, start, last = (np.broadcast_to(x, filled.shape)[filled] for x in (first, starts, stops - 1))
    lowest, highest = (mask.ranges(origin + period * at, keys, prefix).counts() for at in (start, last))
    if most is not None:
        series = zip((last - start + 1).tolist(), lowest.tolist(), highest.tolist(), strict=True)
        return sum(_at_most(most, count, *sorted(ends)) for count, *ends in series)
    # Python's integers, since a sum over 10^15 queries is beyond 64 bits.
    twice = int(((last - start + 1).astype(object) * (lowest + highest).astype(object)).sum())
    assert twice % 2 == 0, "a series of whole numbers has a whole sum"
    return twice // 2


def _at_most(most: int, count: int, low: int, high: int) -> int:
    """The sum of an arithmetic series of `count` whole numbers from low to high, each of them at most `most`."""
    step = (high - low) // max(count - 1, 1)
    below = count if step == 0 and low < most else 0 if step == 0 else min(count, max(0, -((low - most) // step)))
    return below * low + step * (below * (below - 1) // 2) + (count - below) * most


def _starts(here: Ranges, later: Ranges, first: Integers, period: int, keys: int) -> Integers:
    """The members of each class at which a new series may begin, (members, classes): the first, and those where edges cross.

    An edge e + P m meets a fixed one f at m = (f - e) / P: a series ends before it, and another begins after it.
    """
    edges = np.stack([first, *here.edges])
    growth = np.stack([first + period, *later.edges]) - edges
    moving, still = (growth == period).all(1), (growth == 0).all(1)
    assert (moving | still).all(), "an edge stands still or moves with the query"
    fixed = np.concatenate([edges[still], np.stack([np.zeros_like(first), np.full_like(first, keys)])])
    gaps = (fixed[:, None] - edges[moving][None]).reshape(-1, len(first))
    return np.concatenate([np.zeros_like(first)[None], -(-gaps // period), gaps // period + 1])
