"""`TaskQuestion`: a sequence of a task cut where something is asked: what is read, and what should be said behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anyformer.data import IGNORED
from anyformer.tasks.task import NOTHING, Task, TaskBatch


@dataclass(frozen=True)
class TaskQuestion:
    """`prompt`: the symbols that are read; `wanted`: those that should be said behind them, by their names."""

    task: Task
    prompt: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def text(self) -> str:
        """The prompt as the data's own tokenizer reads it: symbols with a blank between."""
        return " ".join(self.prompt)


def questions(task: Task, drawn: TaskBatch) -> list[TaskQuestion]:
    """One question per sequence of a batch.

    Of a question with its answer behind it (`TaskBatch.sources`), the question with its sign, and the whole answer. Of a task
    that asks between, what is read up to the last place where it asks, and the one symbol that is asked there: what is said at
    earlier places is not read by the model, so that it could not be sampled in one go.
    """
    names, found = task.symbols, []
    for tokens, targets, source in zip(drawn.tokens, drawn.targets, drawn.sources.tolist(), strict=True):
        asked = np.flatnonzero(targets != IGNORED)
        first = source if source else int(asked[-1])
        read = tokens[: first + 1]
        wanted = targets[asked[asked >= first]]
        prompt = tuple(names[number] for number in read.tolist() if number != NOTHING)
        found.append(TaskQuestion(task, prompt, tuple(names[number] for number in wanted.tolist())))
    return found
