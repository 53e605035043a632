"""Records in rows: one in each, or as many as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from anyformer.data.order import permuted

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Which records stand in which row: row i holds order[starts[i] : starts[i + 1]]. Fixed for a run; epochs reorder the
    rows."""

    order: Ints
    starts: Ints

    @classmethod
    def single(cls, records: Sequence[int] | Ints) -> Self:
        """A row per record."""
        return cls(np.asarray(records, dtype=np.int64), np.arange(len(records) + 1, dtype=np.int64))

    @classmethod
    def packed(cls, lengths: Ints, length: int, seed: int) -> Self:
        """Records one after the other in a seeded order, and a new row where the next one does not fit into `length` positions.

        Records that are longer than a row are left out.
        """
        order = permuted(np.arange(len(lengths), dtype=np.int64), len(lengths), seed, -2)
        order = order[lengths[order] <= length]
        ends = np.cumsum(lengths[order])
        starts, used = [0], 0
        while starts[-1] < len(order):
            # The first record that ends beyond the row which began at `used`.
            starts.append(int(np.searchsorted(ends, used + length, side="right")))
            used = int(ends[starts[-1] - 1])
        return cls(order, np.array(starts, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> list[int]:
        """The numbers of the records of a row."""
        records: list[int] = self.order[self.starts[row] : self.starts[row + 1]].tolist()
        return records
