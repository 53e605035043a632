"""Batches of records, as a pure function of (seed, step): resuming needs a step number and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anyformer.data.batches import Ints, part_of
from anyformer.data.columns import Record, RecordTable
from anyformer.data.order import permuted
from anyformer.data.packing import PackedRows
from anyformer.text.errors import DataError


@dataclass(frozen=True, eq=False)
class RecordBatch:
    """The records of each row, and the global sample number of each row (B,)."""

    records: tuple[tuple[Record, ...], ...]
    rows: Ints


@dataclass(frozen=True, eq=False)
class RecordBatches:
    """Training batches of `batch` rows of records, without end: each epoch is a permutation of the rows."""

    table: RecordTable
    rows: PackedRows
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise DataError(f"batch = {self.batch} should be at least 1")
        if len(self.rows) < 1:
            raise DataError(f"the {self.table.name} split has no record that fits into a row; set a greater length")

    def at(self, step: int, rank: int = 0, world: int = 1) -> RecordBatch:
        """Batch number `step` (from 0), or the `rank`-th of its `world` equal parts."""
        start, stop = part_of(self.batch, rank, world)
        if step < 0:
            raise DataError(f"step = {step} should be at least 0")
        return self.samples(np.arange(start, stop, dtype=np.int64) + step * self.batch)

    def samples(self, rows: Ints) -> RecordBatch:
        """The samples with these global numbers, in this order."""
        epochs, places = np.divmod(rows, len(self.rows))
        found = np.empty(len(rows), dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            found[here] = permuted(places[here], len(self.rows), self.seed, int(epoch))
        return read_rows(self.table, self.rows, found, rows)


def record_windows(
    table: RecordTable, rows: PackedRows, batch: int, rank: int = 0, world: int = 1, most: int | None = None
) -> Iterator[RecordBatch]:
    """Every row once, for evaluation, or `most` rows spread evenly; the last batch may be smaller."""
    every = len(rows)
    count = every if most is None else min(most, every)
    start, stop = part_of(batch, rank, world)
    for first in range(0, count, batch):
        places = np.arange(first + start, min(first + stop, count), dtype=np.int64)
        if len(places):
            found = (2 * places + 1) * every // (2 * count)
            yield read_rows(table, rows, found, found)


def read_rows(table: RecordTable, rows: PackedRows, found: Ints, numbers: Ints) -> RecordBatch:
    """The records of the rows `found`."""
    return RecordBatch(tuple(tuple(table[record] for record in rows[row]) for row in found.tolist()), numbers)
