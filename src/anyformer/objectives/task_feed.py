"""The feed of a generated task: sequences by their numbers, made into examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anyformer.data import Record
from anyformer.data.batches import part_of
from anyformer.data.packing import Ints
from anyformer.objectives.examples import Examples
from anyformer.tasks import TaskBatch, TaskData
from anyformer.text import DataError

Make = Callable[[TaskBatch, Ints], Examples]


@dataclass(frozen=True)
class TaskFeed:
    """Sequences of a task, made into examples by `make`; each row has `each` of them, in `length` positions one.

    Row i has sequences i * each ... i * each + each - 1. Those of training depend on the seed, the held-out ones do not.
    """

    data: TaskData
    held_out: bool
    length: int
    each: int
    batch: int
    seed: int
    whole: int
    make: Make

    @property
    def unit(self) -> str:
        return "sequences"

    @property
    def left_out(self) -> int:
        return 0

    @property
    def bytes_each(self) -> float | None:
        return None

    @property
    def epoch(self) -> int:
        return max(1, self.whole // self.each)

    def at(self, step: int, rank: int = 0, world: int = 1) -> Examples:
        start, stop = part_of(self.batch, rank, world)
        if step < 0:
            raise DataError(f"step = {step} should be at least 0")
        rows = np.arange(start, stop, dtype=np.int64) + step * self.batch
        return self.drawn(rows, rows)

    def drawn(self, numbers: Ints, rows: Ints) -> Examples:
        sequences = (numbers[:, None] * self.each + np.arange(self.each)).ravel()
        return self.make(self.data.drawn(sequences, self.seed, self.length, test=self.held_out), rows)

    def records(self, numbers: Ints) -> Sequence[tuple[Record, ...]]:
        return [()] * len(numbers)

    def once(self, most: int | None = None) -> Iterator[Examples]:
        count = self.rows_of(most)
        for first in range(0, count, self.batch):
            rows = np.arange(first, min(first + self.batch, count), dtype=np.int64)
            yield self.drawn(rows, rows)

    def rows_of(self, most: int | None = None) -> int:
        every = -(-self.whole // self.each)
        return every if most is None else min(most, every)
