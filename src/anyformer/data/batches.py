"""Batches of windows of a split, as a pure function of (seed, step): resuming needs a step number and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anyformer.data.corpus import Split
from anyformer.data.order import hashed, hashed_below, permuted
from anyformer.text.errors import DataError

IGNORED = -100
"""The target where there is nothing to predict; `torch.nn.functional.cross_entropy` ignores it."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a global batch: int64 arrays (B, T), and `rows` (B,).

    `targets` are the next tokens, or `IGNORED`; `documents` number the documents of a row from 0, None unless documents are
    isolated; `rows` are global sample indices, the key of everything random per row; `padding` is true beyond the end of the
    split, None where no row reaches it.
    """

    tokens: Ints
    targets: Ints
    rows: Ints
    documents: Ints | None = None
    padding: NDArray[np.bool_] | None = None

    @property
    def valid(self) -> int:
        """Number of targets that are not ignored."""
        return int((self.targets != IGNORED).sum())


@dataclass(frozen=True, eq=False)
class Batches:
    """Training batches of `batch` windows of `length` tokens from a split, without end.

    `epochs`: the split is cut into windows from an origin that moves with each epoch, and each epoch is a permutation of its
    windows. `random`: windows start anywhere, with replacement. Both depend on (seed, sample index) only.
    """

    split: Split
    length: int
    batch: int
    seed: int
    isolate: bool = False
    sampling: Literal["epochs", "random"] = "epochs"

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise DataError(f"batch = {self.batch} should be at least 1")
        _check_length(self.split, self.length)

    @property
    def windows(self) -> int:
        """Windows per epoch: one fewer than fit, so that their origin can move by up to a window's length."""
        return max(1, (len(self.split) - self.length) // self.length)

    def at(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Batch number `step` (from 0), or the `rank`-th of its `world` equal parts: (batch / world, length)."""
        start, stop = part_of(self.batch, rank, world)
        if step < 0:
            raise DataError(f"step = {step} should be at least 0")
        return self.samples(np.arange(start, stop, dtype=np.int64) + step * self.batch)

    def samples(self, rows: Ints) -> Batch:
        """The samples with these global indices, in this order."""
        tokens = len(self.split)
        if self.sampling == "random":
            starts = (hashed(rows, self.seed) % np.uint64(tokens - self.length)).astype(np.int64)
        else:
            starts = np.empty(len(rows), dtype=np.int64)
            epochs, places = np.divmod(rows, self.windows)
            for epoch in np.unique(epochs):
                here = epochs == epoch
                order = permuted(places[here], self.windows, self.seed, int(epoch))
                starts[here] = self.origin(int(epoch)) + order * self.length
        return _cut(self.split, starts, rows, self.length, self.isolate)

    def origin(self, epoch: int) -> int:
        """Where the first window of an epoch starts: any place for which the last window fits, all equally likely, so that
        over the epochs every token is read."""
        return hashed_below(len(self.split) - self.windows * self.length, self.seed, epoch, -1)


def windows(
    split: Split, length: int, batch: int, isolate: bool = False, rank: int = 0, world: int = 1, most: int | None = None
) -> Iterator[Batch]:
    """The whole split once, for evaluation: every token but the first is a target exactly once, in windows side by side.

    `most`: at most this many windows, spread evenly over the split. All batches have one shape, (batch or fewer, length);
    positions beyond the end of the split are padding with `IGNORED` targets. With `world` > 1 each rank gets its part of every
    batch.
    """
    if batch < 1:
        raise DataError(f"batch = {batch} should be at least 1")
    _check_length(split, 1)
    every, count = _count(split, length), window_count(split, length, most)
    # No larger than the number of windows, rounded up to equal parts for all ranks.
    batch = min(batch, -(-count // world) * world)
    start, stop = part_of(batch, rank, world)
    for first in range(0, count, batch):
        places = np.arange(first + start, first + stop, dtype=np.int64)
        # The middle of each of `count` equal parts; further rows of the last batch lie beyond the end of the split.
        rows = np.where(places < count, (2 * places + 1) * every // (2 * count), every + places)
        yield _cut(split, rows * length, rows, length, isolate)


def window_count(split: Split, length: int, most: int | None = None) -> int:
    """How many windows `windows` gives, without those beyond the end of the split that fill the last batch."""
    every = _count(split, length)
    return every if most is None else min(most, every)


def spread(split: Split, length: int, most: int) -> Ints:
    """The tokens of the windows that `windows` gives for `most`, each with the target of its last: (windows, length + 1).

    A window that goes beyond the end of the split is left out, unless it is the only one.
    """
    every = _count(split, length)
    count = min(most, every)
    starts = (2 * np.arange(count, dtype=np.int64) + 1) * every // (2 * count) * length
    whole = starts[starts + length < len(split)]
    if not len(whole):
        return split.tokens[:][None]
    return np.stack([split.tokens[start : start + length + 1] for start in whole.tolist()])


def _count(split: Split, length: int) -> int:
    """Number of windows side by side whose targets are all tokens but the first."""
    return -(-(len(split) - 1) // length)


def part_of(batch: int, rank: int, world: int) -> tuple[int, int]:
    """The first and the last row, exclusive, of a rank's equal part of a batch."""
    if not 0 <= rank < world:
        raise DataError(f"rank = {rank} should be in 0..{world - 1}")
    if batch % world:
        raise DataError(f"a batch of {batch} rows cannot be shared by {world} ranks; make it a multiple of {world}")
    share = batch // world
    return rank * share, (rank + 1) * share


def _check_length(split: Split, length: int) -> None:
    if length < 1:
        raise DataError(f"length = {length} should be at least 1")
    if len(split) < length + 1:
        remedy = "give more text, a larger `validation` fraction" if split.name == "validation" else "give more text"
        raise DataError(
            f"the {split.name} split has {len(split):,} tokens, a window of length {length:,} needs {length + 1:,}; "
            f"{remedy}, or a shorter length"
        )


def _cut(split: Split, starts: Ints, rows: Ints, length: int, isolate: bool) -> Batch:
    """The windows at `starts`; positions beyond the end of the split are padding."""
    runs = split.tokens.runs(starts.tolist(), length + 1)
    line = np.zeros((len(runs), length + 1), dtype=np.int64)
    for row, run in zip(line, runs, strict=True):
        row[: len(run)] = run
    places = starts[:, None] + np.arange(length + 1)
    beyond = places >= len(split)
    targets = np.where(beyond[:, 1:], IGNORED, line[:, 1:])
    padding = beyond[:, :-1] if beyond[:, :-1].any() else None
    if not isolate:
        return Batch(line[:, :-1], targets, rows, padding=padding)
    # Padding is one more document, so that nothing real attends to it.
    document = np.searchsorted(split.starts, places, side="right") + beyond
    targets[document[:, 1:] != document[:, :-1]] = IGNORED
    documents = document[:, :-1] - document[:, :1]
    return Batch(line[:, :-1], targets, rows, documents, padding)
