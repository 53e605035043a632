"""`Task`: the base of generated tasks, as a value; `TaskBatch`: its sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyformer.data import IGNORED
from anyformer.describe import Registry, Value
from anyformer.tasks.draws import Draws, Ints

NOTHING = -1
"""The number of no symbol: what stands behind the end of a shorter sequence."""


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """B sequences of at most N positions. Symbols are numbered from 0.

    `tokens` (B, N): what is read, `NOTHING` behind a sequence's end. `targets` (B, N): what is to be said once the position is
    read, `IGNORED` where nothing is asked. `answers` (B, N): which answer of its row a target belongs to, from 0. `distances`
    (B, N): positions back to where the target stands in what was read; 0 where it stands nowhere. `chances` (B, N): the
    probability of the best guess of a target by one who knows the task and the position, and has read nothing. `sources` (B,):
    the first so many positions are the question, whose answer follows; 0 in a task that asks between. `valid` (B,): whether a
    sequence is one of the task.
    """

    tokens: Ints
    targets: Ints
    answers: Ints
    distances: Ints
    chances: NDArray[np.float64]
    sources: Ints
    valid: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        tokens: Ints,
        targets: Ints,
        chances: ArrayLike,
        *,
        distances: Ints | None = None,
        answers: Ints | None = None,
        together: bool = False,
        source: int = 0,
        valid: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Sequences of which only some facts are said. Without `answers`, the targets of a row are one answer if `together`,
        else each its own."""
        asked = targets != IGNORED
        if answers is None:
            answers = np.zeros_like(targets) if together else np.cumsum(asked, axis=1) - 1
        return cls(
            tokens, targets, np.where(asked, answers, NOTHING),
            np.zeros_like(targets) if distances is None else np.where(asked, distances, 0),
            np.where(asked, np.broadcast_to(np.asarray(chances, dtype=np.float64), targets.shape), 0.0),
            np.full(len(tokens), source, dtype=np.int64), np.ones(len(tokens), dtype=np.bool_) if valid is None else valid,
        )  # fmt: skip

    @classmethod
    def empty(cls, rows: int, length: int) -> Self:
        """Rows without a token, to be filled."""
        nothing = np.full((rows, length), NOTHING, dtype=np.int64)
        return replace(cls.of(nothing, np.full_like(nothing, IGNORED), 0.0), valid=np.zeros(rows, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: NDArray[Any], other: TaskBatch) -> None:
        """Fill `rows` with all sequences of `other`, which may be shorter."""
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if theirs.ndim == 1:
                mine[rows] = theirs
            else:
                mine[rows, : theirs.shape[1]] = theirs

    def those(self, chosen: NDArray[Any]) -> Self:
        """Some of the sequences."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))


class Task(Value):
    """Sequences that are made, and what is asked of them. The base of every task; its kind alone stands for its defaults.

    A task is a pure function of the draws and of the length: no sequence depends on those beside it in a batch.
    """

    kinds: ClassVar[Registry] = Registry()
    bare: ClassVar[bool] = True
    paper: ClassVar[str]
    """Where it is from: authors, year, arXiv number."""
    scored: ClassVar[str]
    """What is scored, in words."""
    level: ClassVar[str]
    """The chance level as a formula of the fields."""
    kind: str

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of its symbols, in the order of their numbers: words without a space, each once."""
        raise NotImplementedError

    @property
    def least(self) -> int:
        """The fewest positions that a sequence takes."""
        raise NotImplementedError

    @property
    def most(self) -> int | None:
        """The most positions that a sequence fills; None where any length can be filled."""
        return None

    def chance(self, length: int) -> float:
        """Mean over the targets of `TaskBatch.chances`, at this length."""
        raise NotImplementedError

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        """A sequence of at most `length` positions per row of draws; `length` is at least `least`."""
        raise NotImplementedError

    def split_by(self, draws: Draws, made: TaskBatch) -> Ints:
        """(B, n), -1 at least: what decides whether a sequence is only tested: its symbols, unless a task holds out more."""
        return made.tokens

    def grade(self, wanted: Sequence[str], said: Sequence[str]) -> dict[str, float]:
        """How right an answer in symbols is. `whole`: 1 where it is what was wanted, else 0. `share`: the symbols that are
        right at their places, over those that were wanted or said, whichever are more. A task with several right answers says
        otherwise."""
        right = sum(one == other for one, other in zip(wanted, said, strict=False))
        return {"whole": float(tuple(wanted) == tuple(said)), "share": right / max(1, len(wanted), len(said))}


def named(letter: str, count: int) -> tuple[str, ...]:
    """`count` symbols, as in k0 ... k63."""
    return tuple(f"{letter}{number}" for number in range(count))
