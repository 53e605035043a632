"""The kind of data whose examples are sequences of a task; which of them are only tested."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from anyformer.data.corpus import ENDLESS, Corpus, Endless, MadeData
from anyformer.data.order import hashed
from anyformer.data.tokenizer_specs import Symbols, TokenizerFile, TokenizerSpec
from anyformer.describe import Count, UserError, parse_assignment
from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.symbols import tokenizer_of
from anyformer.tasks.task import NOTHING, Task, TaskBatch
from anyformer.text import DataError

if TYPE_CHECKING:
    from anyformer.model import Architecture

_SPLIT, _LENGTH = 0x5911, "length of the sequence"
_TRIES = 50.0
"""The chance that a sequence of the right split is not found, if a share p of all is right, is e^-50: 50 / p tries."""


class TaskData(MadeData):
    """Sequences of a task, made from the run's seed and their number, without end.

    Train and test are drawn apart: a hash of a sequence's own symbols, which no seed changes, says whether it is one that is
    only tested. A sequence of the wrong split is drawn again, so that none is ever in both, whatever the seed or the length.
    Some tasks hold out more: `regression` the function of a row.
    """

    tokenizer: TokenizerSpec = Symbols()
    """The data's own symbols; or a file that has them all, as a model that was trained on them keeps."""
    kind: Literal["task"] = "task"
    task: Task
    """The task, by its kind or as a table: `task = "parity"`, `task = { kind = "mqar", pairs = 16 }`."""
    shortest: Count | None = None
    """The shortest sequences: lengths are drawn evenly from here to `longest`. Absent: all are as long as `longest`."""
    longest: Count | None = None
    """The longest sequences. Absent: T, the length of the run."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.125
    """The share of all sequences that is only tested."""
    test: Count = 1024
    """Sequences that an evaluation on all held-out ones reads."""

    @field_validator("tokenizer")
    @classmethod
    def _of_symbols(cls, tokenizer: TokenizerSpec) -> TokenizerSpec:
        if not isinstance(tokenizer, Symbols | TokenizerFile):
            raise ValueError(f"kind = {tokenizer.kind!r} is for text, and this data has symbols of its own: leave it out")
        return tokenizer

    @model_validator(mode="after")
    def _in_order(self) -> TaskData:
        if self.shortest is not None and self.longest is not None and self.shortest > self.longest:
            raise ValueError(f"shortest = {self.shortest} is more than longest = {self.longest}")
        return self

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """The task that the one path names; refused where there is none of that name."""
        made = named_task(paths[0]) if len(paths) == 1 else None
        if made is not None:
            return cls(task=made)
        raise UserError(
            f"a task is made, not read from {', '.join(paths)}: give the kind of one, or a table of its fields; the tasks are "
            f"{', '.join(sorted(Task.kinds))}"
        )

    @property
    def of_any_length(self) -> Self:
        return self.but(shortest=None, longest=None)

    @property
    def components(self) -> Mapping[str, Self]:
        return {"": self}

    @property
    def places(self) -> tuple[str, ...]:
        return (f"task {self.task.kind}",)

    @property
    def holds_out(self) -> bool:
        return True

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of its symbols: words without a space."""
        return self.task.symbols

    def corpus(self, cache: Path) -> Corpus:
        tokenizer = tokenizer_of(self.tokenizer, self.symbols)
        digest = hashlib.sha256(f"{self.but(tokenizer=Symbols()).digest} {tokenizer.digest}".encode()).hexdigest()
        train, held_out = Endless("train", ENDLESS), Endless("validation", self.test)
        return Corpus(cache, tokenizer, train, held_out, (), digest, {}, {})

    def lengths(self, length: int) -> tuple[int, int]:
        """The shortest and the longest sequences in rows of T = `length`. `DataError` where the task has none of these."""
        longest = min(length, self.task.most or length) if self.longest is None else self.longest
        shortest = longest if self.shortest is None else self.shortest
        problem = None
        if longest > length:
            problem = f"data.longest = {longest} is longer than a row, length = {length}: set a greater length"
        elif shortest < self.task.least:
            problem = (
                f"the task {self.task.kind} takes {self.task.least} positions at least, and sequences would have {shortest}: "
                "set a greater length, data.shortest or data.longest"
            )
        elif self.task.most is not None and longest > self.task.most:
            problem = (
                f"the task {self.task.kind} fills {self.task.most} positions at most, and data.longest = {longest}: set it to "
                f"{self.task.most}, or more symbols in data.task"
            )
        elif shortest > longest:
            problem = f"data.shortest = {shortest} is more than the longest sequence of a row, {longest}"
        if problem is not None:
            raise DataError(problem)
        return shortest, longest

    def drawn(self, rows: Ints, seed: int, length: int, *, test: bool) -> TaskBatch:
        """The sequences with these numbers, (B, `length`): of training by the seed, or the held-out ones, which have none.

        The first of a sequence's draws that is one of the task, and of this split, counts.
        """
        shortest, longest = self.lengths(length)
        result, left = TaskBatch.empty(len(rows), length), np.arange(len(rows))
        keys = (0, 1) if test else (seed, 0)
        for attempt in range(ceil(_TRIES / min(self.held_out, 1 - self.held_out))):
            draws = Draws.of(rows[left], *keys, attempt)
            sizes = shortest + draws.below(_LENGTH, longest - shortest + 1, 1)[:, 0]
            fits = np.zeros(len(left), dtype=np.bool_)
            for size in np.unique(sizes).tolist():
                here = np.flatnonzero(sizes == size)
                own = draws.those(here)
                made = self.task.draw(own, size)
                kept = made.valid & (is_held_out(self.task.split_by(own, made), self.held_out) == test)
                fits[here] = kept
                result.take(left[here[kept]], made.those(kept))
            left = left[~fits]
            if not len(left):
                return result
        raise DataError(
            f"the task {self.task.kind} has too few sequences of {shortest} to {longest} positions: none of them is "
            f"{'held out' if test else 'for training'} with data.held_out = {self.held_out:g}; set a greater length, or more "
            "symbols"
        )


def named_task(word: str) -> Task | None:
    """The task that a word names, by its kind or as a table: `parity`, `{kind="mqar",pairs=16}`; None if it names none."""
    if word in Task.kinds or word.startswith("{"):
        return TaskData.parse({"task": parse_assignment(f"task={word}")[1]}, where=word).task
    return None


def is_held_out(tokens: Ints, share: float) -> NDArray[np.bool_]:
    """(B,): whether each sequence (B, N) is one that is only tested: by a hash of its symbols, not of its padding."""
    weights = hashed(np.arange(tokens.shape[1]), _SPLIT) | np.uint64(1)
    digest = hashed(((tokens - NOTHING).astype(np.uint64) * weights).sum(1, dtype=np.uint64))
    result: NDArray[np.bool_] = (digest >> np.uint64(11)) * 2.0**-53 < share
    return result
