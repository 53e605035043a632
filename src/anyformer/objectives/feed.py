"""Feeds: the batches of a split, made into examples by an objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from anyformer.data import (
    Batch,
    Batches,
    PackedRows,
    Record,
    RecordBatch,
    RecordBatches,
    RecordTable,
    Split,
    record_windows,
    spread,
    window_count,
    windows,
)
from anyformer.data.packing import Ints
from anyformer.objectives.examples import Examples
from anyformer.text import Tokenizer

MOST_TOKENS = 20_000_000
"""Most training tokens that the bigram baseline counts."""


class Feed(Protocol):
    """The examples of a split: as training batches without end, and once for evaluation."""

    @property
    def whole(self) -> int:
        """How many tokens, or records, the split has."""

    @property
    def unit(self) -> str:
        """What `whole` counts: tokens or records."""

    @property
    def each(self) -> int:
        """How many of these a row has, about."""

    @property
    def left_out(self) -> int:
        """How many of these no row has, since they do not fit into one."""

    @property
    def bytes_each(self) -> float | None:
        """Bytes of text of each token; None where a unit is no token, or the size is unknown."""

    @property
    def epoch(self) -> int:
        """Training rows that read the split about once."""

    def at(self, step: int, rank: int = 0, world: int = 1) -> Examples:
        """Training batch number `step`: a pure function of the seed and the step."""

    def drawn(self, numbers: Ints, rows: Ints) -> Examples:
        """The training samples with these numbers, as the rows with these global numbers, the key of all that is random."""

    def records(self, numbers: Ints) -> Sequence[tuple[Record, ...]]:
        """The records of the training samples with these numbers; none of what is no record."""

    def once(self, most: int | None = None) -> Iterator[Examples]:
        """The whole split once, or `most` rows spread evenly over it; rows without targets may fill the last batch."""

    def rows_of(self, most: int | None = None) -> int:
        """How many rows `once` gives, without those that only fill the last batch."""


@dataclass(frozen=True)
class TextFeed:
    """Windows of running text, made into examples by `make`."""

    split: Split
    length: int
    batch: int
    seed: int
    isolate: bool
    sampling: Literal["epochs", "random"]
    make: Callable[[Batch], Examples]

    @property
    def whole(self) -> int:
        return len(self.split) - 1

    @property
    def unit(self) -> str:
        return "tokens"

    @property
    def each(self) -> int:
        return self.length

    @property
    def left_out(self) -> int:
        return 0

    @property
    def bytes_each(self) -> float | None:
        return self.split.bytes / len(self.split) or None

    @property
    def batches(self) -> Batches:
        """The windows to train on; refuses a split that is shorter than one."""
        return Batches(self.split, self.length, self.batch, self.seed, self.isolate, self.sampling)

    def tokens(self, steps: int) -> Ints:
        """The tokens of the first training batches, `MOST_TOKENS` at most; of the split itself where these are all of it."""
        most = min(len(self.split), MOST_TOKENS)
        if steps * self.batch * self.length >= most:
            return self.split.tokens[:most]
        return np.concatenate([self.batches.at(step).tokens.ravel() for step in range(steps)])

    def lines(self, most: int) -> Ints:
        """The tokens of `most` windows spread evenly over the split, (windows, length + 1)."""
        return spread(self.split, self.length, most)

    @property
    def epoch(self) -> int:
        return self.batches.windows

    def at(self, step: int, rank: int = 0, world: int = 1) -> Examples:
        return self.make(self.batches.at(step, rank, world))

    def drawn(self, numbers: Ints, rows: Ints) -> Examples:
        return self.make(replace(self.batches.samples(numbers), rows=rows))

    def records(self, numbers: Ints) -> Sequence[tuple[Record, ...]]:
        return [()] * len(numbers)

    def once(self, most: int | None = None) -> Iterator[Examples]:
        return map(self.make, windows(self.split, self.length, self.batch, self.isolate, most=most))

    def rows_of(self, most: int | None = None) -> int:
        return window_count(self.split, self.length, most)


@dataclass(frozen=True)
class RecordFeed:
    """Rows of records, made into examples by `make`; `tokenizer`: of their texts."""

    table: RecordTable
    rows: PackedRows
    batch: int
    seed: int
    make: Callable[[RecordBatch], Examples]
    tokenizer: Tokenizer | None = None

    @property
    def whole(self) -> int:
        return len(self.table)

    @property
    def unit(self) -> str:
        return "records"

    @property
    def each(self) -> int:
        return max(1, len(self.table) // max(1, len(self.rows)))

    @property
    def left_out(self) -> int:
        return len(self.table) - len(self.rows.order)

    @property
    def bytes_each(self) -> float | None:
        return None

    @property
    def epoch(self) -> int:
        return len(self.rows)

    @property
    def batches(self) -> RecordBatches:
        """The rows to train on; refuses a table without one."""
        return RecordBatches(self.table, self.rows, self.batch, self.seed)

    def at(self, step: int, rank: int = 0, world: int = 1) -> Examples:
        return self.make(self.batches.at(step, rank, world))

    def drawn(self, numbers: Ints, rows: Ints) -> Examples:
        return self.make(replace(self.batches.samples(numbers), rows=rows))

    def records(self, numbers: Ints) -> Sequence[tuple[Record, ...]]:
        return self.batches.samples(numbers).records

    def once(self, most: int | None = None) -> Iterator[Examples]:
        return map(self.make, record_windows(self.table, self.rows, self.batch, most=most))

    def rows_of(self, most: int | None = None) -> int:
        return len(self.rows) if most is None else min(most, len(self.rows))


def remade_rows(feed: Feed, change: Callable[[Examples], Examples]) -> Feed:
    """The same rows of text, whose examples are then changed."""
    assert isinstance(feed, TextFeed | RecordFeed), "an objective on text makes such feeds"
    make = feed.make

    def changed(batch: Any) -> Examples:
        return change(make(batch))

    return replace(feed, make=changed)


def remade(feed: Feed, make: Callable[[RecordBatch], Examples]) -> Feed:
    """The same rows of records, made into examples by another function."""
    assert isinstance(feed, RecordFeed), "an objective on records makes such feeds"
    return replace(feed, make=make)
