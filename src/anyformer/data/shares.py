"""Which part of a mixture each row is of: a pure function of (seed, row) in memory that does not grow with the rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Self

import numpy as np

from anyformer.data.order import permuted
from anyformer.data.packing import Ints

BLOCK = 1000
"""Rows over which the share of every part is exact."""


def quotas(weights: Sequence[float], rows: int) -> tuple[int, ...]:
    """`rows` divided in proportion to `weights` by the largest remainder; of equal remainders the first part's counts more.

    The exact share of part c is rows * w_c / sum(w); each part has its whole rows, and those that are left over go to the
    parts with the largest remainders, one each.
    """
    total = sum(weights)
    shares = [rows * weight / total for weight in weights]
    whole = [floor(share) for share in shares]
    # Rounded, so that equal weights have equal remainders.
    order = sorted(range(len(shares)), key=lambda part: (-round(shares[part] - whole[part], 9), part))
    for part in order[: rows - sum(whole)]:
        whole[part] += 1
    return tuple(whole)


@dataclass(frozen=True)
class Phase:
    """Blocks from number `first` on that are alike: each has `quota` (parts,) rows of the parts, after `before` (parts,)."""

    first: int
    quota: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(frozen=True)
class Shares:
    """The part of every row, and the row's number within the part.

    Block b is rows 1000 b ... 1000 b + 999. It has quota_c(b) rows of part c: `quotas` of the weights, until a part has no
    more rows; in the block in which these end it gives what it has left, and the rest is divided by the weights of the others.
    Place p of a block is that of permuted(p; seed, b) in the list of the block's rows, part after part. So after any
    number of whole blocks each part has given its first rows, each once.
    """

    phases: tuple[Phase, ...]
    seed: int

    @classmethod
    def of(cls, weights: Sequence[float], most: Sequence[int | None], seed: int) -> Self:
        """`most`: the rows that a part may give, None without a bound; one part at least has none."""
        assert None in most, "refused where the mixture is described"
        phases, first, before = [], 0, [0] * len(weights)
        while True:
            left = [None if bound is None else bound - given for bound, given in zip(most, before, strict=True)]
            quota = _divided(weights, left)
            phases.append(Phase(first, quota, tuple(before)))
            lasting = [rows // each for rows, each in zip(left, quota, strict=True) if rows is not None and each]
            if not lasting:
                return cls(tuple(phases), seed)
            blocks = min(lasting)
            first += blocks
            before = [given + blocks * each for given, each in zip(before, quota, strict=True)]

    def __call__(self, rows: Ints) -> tuple[Ints, Ints]:
        """(parts, numbers): of each global row the part, and its number within the part."""
        parts, numbers = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
        blocks, places = np.divmod(rows, BLOCK)
        for block in np.unique(blocks).tolist():
            here = blocks == block
            quota, before = self._block(block)
            slots = permuted(places[here], BLOCK, self.seed, block, -3)
            ends = np.cumsum(quota)
            parts[here] = np.searchsorted(ends, slots, side="right")
            numbers[here] = slots - (ends - quota)[parts[here]] + before[parts[here]]
        return parts, numbers

    def given(self, rows: int) -> Ints:
        """(parts,): how many of the first `rows` rows are of each part."""
        blocks, rest = divmod(rows, BLOCK)
        _, before = self._block(blocks)
        parts, _ = self(np.arange(rest, dtype=np.int64) + blocks * BLOCK)
        given: Ints = before + np.bincount(parts, minlength=len(before))
        return given

    def _block(self, block: int) -> tuple[Ints, Ints]:
        """(quota, before) of a block: the rows of each part in it and before it."""
        phase = self.phases[bisect_right(self.phases, block, key=lambda phase: phase.first) - 1]
        quota = np.array(phase.quota, dtype=np.int64)
        return quota, np.array(phase.before, dtype=np.int64) + (block - phase.first) * quota


def _divided(weights: Sequence[float], left: Sequence[int | None]) -> tuple[int, ...]:
    """The quotas of a block in which part c has `left[c]` rows at most."""
    full: dict[int, int] = {}
    while True:
        free = [part for part in range(len(weights)) if part not in full]
        shares = quotas([weights[part] for part in free], BLOCK - sum(full.values()))
        over = {
            part: bound for part, share in zip(free, shares, strict=True) if (bound := left[part]) is not None and bound < share
        }
        if not over:
            return tuple({**full, **dict(zip(free, shares, strict=True))}[part] for part in range(len(weights)))
        full |= over
