"""What a model is asked: a task, how its symbols are numbered, and at which lengths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyformer.data import Symbols
from anyformer.describe import UserError
from anyformer.evaluation.subject import Subject, own_data
from anyformer.model import Architecture
from anyformer.objectives import Setting, TaskObjective, TaskSeq2SeqObjective
from anyformer.objectives.answers import AnswersObjective
from anyformer.objectives.task_feed import TaskFeed
from anyformer.tasks import Task, TaskData
from anyformer.tasks.symbols import tokenizer_of
from anyformer.text import Tokenizer

FACTORS = (0.5, 1, 2, 4)
"""Lengths that are asked, as factors of the trained one."""
UNTRAINED = 64
"""The length that they are factors of, for a task that the model was not trained on."""
UNASKED = "induction"
"""The task that a model is asked which was trained on none: the rule of what follows is in the row itself."""
BATCH_TOKENS = 8192


@dataclass(frozen=True)
class ProbeQuestion:
    """A task, its symbols' numbers, and the longest sequences that the model was trained on; None if it was not."""

    data: TaskData
    tokenizer: Tokenizer
    trained: int | None = None

    def feed(self, architecture: Architecture, length: int, sequences: int) -> TaskFeed:
        """So many held-out sequences of a length. Raises `ValueError` where the task or the model has no such length."""
        objective, data = objective_of(architecture), self.data.but(shortest=None, longest=length, test=sequences)
        objective.check_data(data, architecture, length)
        for name, stack in architecture.stacks.items():
            if stack.max_length is not None and length > stack.max_length:
                raise UserError(f"length {length:,} is longer than the position table of the {name} ({stack.max_length:,})")
        batch = max(1, min(sequences, BATCH_TOKENS // length))
        corpus = data.but(tokenizer=Symbols()).corpus(Path())
        return objective.feed(data, corpus, Setting(self.tokenizer, length), batch, held_out=True)

    def lengths(self, architecture: Architecture) -> tuple[int, ...]:
        """Half, once, twice and four times the trained length, as far as the task and the model's position tables go."""
        base, task = self.trained or max(UNTRAINED, self.data.task.least), self.data.task
        tables = (stack.max_length for stack in architecture.stacks.values())
        most = min(bound for bound in (max(FACTORS) * base, task.most, *tables) if bound is not None)
        wanted = {int(min(factor * base, most)) for factor in FACTORS}
        return tuple(sorted(length for length in wanted if length >= task.least))


def objective_of(architecture: Architecture) -> AnswersObjective:
    """The objective by which a model is asked; refuses a model that cannot be."""
    objective = TaskSeq2SeqObjective() if architecture.two_inputs else TaskObjective()
    objective.check(architecture)
    return objective


def own_question(subject: Subject) -> ProbeQuestion | None:
    """The task that the model's run was trained on, if it is one."""
    found = own_data(subject)
    match found:
        case (TaskData() as data, run):
            return ProbeQuestion(data, subject.text, data.lengths(run.length)[1])
    return None


def question(subject: Subject, wanted: Task | None = None) -> ProbeQuestion:
    """What to ask: by default what the run was trained on, or induction where it was trained on no task.

    A task that has the run's kind and only defaults is the run's own. Symbols of another task are numbered from 1: to a model
    that never saw them they are any tokens of its vocabulary.
    """
    own = own_question(subject)
    if own is not None and (wanted is None or wanted in (own.data.task, task_of(own.data.task.kind))):
        return own
    task, usual = wanted or task_of(UNASKED), TaskData.model_fields["held_out"].default
    data = TaskData(task=task, held_out=usual if own is None else own.data.held_out)
    made, architecture = ProbeQuestion(data, tokenizer_of(Symbols(), data.symbols)), subject.model.architecture
    try:
        made.feed(architecture, next(iter(made.lengths(architecture)), task.least), 1)
    except ValueError as error:
        raise UserError(f"{subject.path}: {error}") from None
    return made


def task_of(kind: str) -> Task:
    """The task of a kind with its defaults; refused with the nearest one if there is none."""
    made = Task.kinds.parse(Task, {"kind": kind})
    assert isinstance(made, Task), "it is one of its kinds"
    return made


def fitting(subject: Subject) -> tuple[Task, ...]:
    """The tasks, with their defaults, that a model can be asked."""
    found = []
    for kind in sorted(Task.kinds):
        task = task_of(kind)
        try:
            question(subject, task)
        except UserError:
            continue
        found.append(task)
    return tuple(found)
