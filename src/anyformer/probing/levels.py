"""What a model reaches on a task: at every length, by position and by distance, beside the chance; as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyformer.evaluation.intervals import Interval, share
from anyformer.tasks import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Accuracy:
    """How many of `asked` are right, and how many a guess is right about, on average.

    `rows`: (right, asked) of each sequence. Targets of one sequence are right or wrong together more often than by chance, so
    that the interval is taken over sequences; empty where each of what is asked stands for itself.
    """

    asked: int
    right: int
    guessed: float
    rows: tuple[tuple[int, int], ...] = ()

    @property
    def accuracy(self) -> float:
        """The share that is right; 0 where nothing is asked."""
        return self.right / max(1, self.asked)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the share that is right: Wilson's, or over sequences that of the ratio of sums.

        Of m sequences the variance of sum r / sum n is that of r - p n over them, m / (m - 1) sum (r - p n)^2 / (sum n)^2
        (Cochran 1977, chapter 6). It is as that of n_e = p (1 - p) / variance single targets, for which Wilson's ends are
        taken; n_e is at most the targets, and where all are right or wrong it is the sequences.
        """
        if len(self.rows) < 2:
            return share(self.right, self.asked)
        p, m = self.accuracy, len(self.rows)
        squares = sum((right - p * asked) ** 2 for right, asked in self.rows)
        variance = m / (m - 1) * squares / max(1, self.asked) ** 2
        alone = m if variance == 0 else max(1.0, min(float(self.asked), p * (1 - p) / variance))
        return share(p * alone, alone)

    @property
    def chance(self) -> float:
        """The share that a guess reaches."""
        return self.guessed / max(1, self.asked)

    @property
    def facts(self) -> dict[str, Any]:
        """Plain data."""
        ends = [self.interval.low, self.interval.high]
        return {"asked": self.asked, "accuracy": self.accuracy, "interval": ends, "chance": self.chance}


@dataclass(frozen=True)
class DistanceBucket:
    """The targets at positions, or with distances, from `first` to `last`."""

    first: int
    last: int
    share: Accuracy

    @property
    def facts(self) -> dict[str, Any]:
        """Plain data."""
        return {"first": self.first, "last": self.last, **self.share.facts}


@dataclass(frozen=True)
class Level:
    """`sequences` held-out ones of `length` positions: their targets, and their answers, which are right if all targets are.

    `by_position`: position in the row, from 0, or with two inputs in the answer. `by_distance`: positions back to where the
    target stands; empty in tasks where it stands nowhere.
    """

    length: int
    sequences: int
    targets: Accuracy
    answers: Accuracy
    by_position: tuple[DistanceBucket, ...]
    by_distance: tuple[DistanceBucket, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "length": self.length, "sequences": self.sequences, **self.targets.facts,
            "whole_answers": self.answers.facts,
            "by_position": [bucket.facts for bucket in self.by_position],
            "by_distance": [bucket.facts for bucket in self.by_distance],
        }  # fmt: skip


@dataclass(frozen=True)
class Probed:
    """What a model reaches on a task. `trained`: the length that it was trained at, None if it was not trained on the task.

    `refused`: lengths at which it could not be asked, each with the reason.
    """

    task: Task
    trained: int | None
    levels: tuple[Level, ...]
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "task": self.task.kind, "description": self.task.plain(), "trained_length": self.trained,
            "levels": [level.facts for level in self.levels],
            "refused": {str(length): reason for length, reason in self.refused.items()},
        }  # fmt: skip


def by_sequence(right: NDArray[np.bool_], sequences: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """(right, asked) of each sequence, from the number of the sequence of each target."""
    found, at = np.unique(sequences, return_inverse=True)
    sums = (np.bincount(at, weights=right, minlength=len(found)), np.bincount(at, minlength=len(found)))
    return tuple((int(one), int(all_)) for one, all_ in zip(*sums, strict=True))


def buckets(
    numbers: NDArray[np.int64], right: NDArray[np.bool_], guessed: Floats, sequences: NDArray[np.int64]
) -> tuple[DistanceBucket, ...]:
    """Targets by a number of each (0, 1, 2 to 3, 4 to 7, ...), without empty ones; `sequences`: whose target each is."""
    # The exponent of n: 0 -> 0, 1 -> 1, 2 and 3 -> 2, ...
    order = np.frexp(numbers.astype(np.float64))[1]
    found = []
    for power in np.unique(order).tolist():
        here = order == power
        first, last = (0, 0) if power == 0 else (2 ** (power - 1), 2**power - 1)
        rows = by_sequence(right[here], sequences[here])
        reached = Accuracy(int(here.sum()), int(right[here].sum()), float(guessed[here].sum()), rows)
        found.append(DistanceBucket(first, min(last, int(numbers.max())), reached))
    return tuple(found)
