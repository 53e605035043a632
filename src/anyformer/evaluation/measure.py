"""A subject's loss and metrics on data, and two subjects on the same data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anyformer.data import Corpus, RecordTable
from anyformer.describe import UserError
from anyformer.evaluation.intervals import PairedDifference, paired
from anyformer.evaluation.likelihood import BATCH_TOKENS
from anyformer.evaluation.one_split import whole
from anyformer.evaluation.readings import ByDocument, SideBySide, TextReading
from anyformer.evaluation.subject import PLAN, Subject, described, own_data
from anyformer.evaluation.text_figures import TextFigures, text_figures
from anyformer.loading import labels_of
from anyformer.objectives import Feed, Objective, Partners, Setting, beside, prepared, without_penalties
from anyformer.objectives.feed import TextFeed
from anyformer.objectives.own_samples import OwnSamples
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import Tokenizer
from anyformer.training.evaluate import Evaluated, evaluate
from anyformer.training.held_out import corpus_of
from anyformer.training.judges import judges_at
from anyformer.training.partners import whole_partners
from anyformer.training.run import Run

DOCUMENTS_FROM = 20
"""Documents from which they are the units that are resampled: windows of one text depend on one another."""
Progress = Callable[[int], None]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reads:
    """`by_document`: each document on its own, else windows side by side; `stride`: of a document's windows, None: they follow
    one another."""

    by_document: bool = False
    stride: int | None = None

    @property
    def words(self) -> str:
        """What a line about the figures adds, empty for windows side by side."""
        apart = "" if self.stride is None else f", windows {self.stride:,} apart"
        return f", every document on its own{apart}" if self.by_document else ""

    def of(self, feed: TextFeed, subject: Subject, tokenizer: Tokenizer) -> TextReading:
        """The text of a feed, so read."""
        if not self.by_document:
            return SideBySide(feed)
        alone = bool(subject.model.architecture.cost(Shape(length=4)).breaks("padded"))
        return ByDocument(feed.split, tokenizer, feed.length, BATCH_TOKENS, self.stride, alone)


@dataclass(frozen=True)
class EvaluationTask:
    """What a subject is evaluated on: `run` says how examples are made, `corpus` holds them, all to be evaluated.

    `reading`: how running text is read whose every token is predicted.
    """

    subject: Subject
    run: Run
    corpus: Corpus
    reading: Reads = Reads()

    @property
    def objective(self) -> Objective:
        return self.run.objective

    @property
    def feed(self) -> Feed:
        """The examples, each once."""
        return self.objective.feed(self.run.data, self.corpus, self._setting, self.run.batch, held_out=True)

    @property
    def samples(self) -> OwnSamples | None:
        """What makes examples of the model's answers, where it is evaluated by these."""
        make = self.objective.traits.own_samples
        if make is None:
            return None
        return make(self.run.data, self._setting, judges_at(self.objective.traits.judges, PLAN, self.subject.model.device))

    @property
    def _setting(self) -> Setting:
        corpus = self.corpus
        return Setting(corpus.tokenizer, self.run.length, self.run.seed, corpus.names, self.run.architecture)

    @property
    def partners(self) -> Partners:
        """The second models that the objective needs."""
        if not beside(self.objective) or self.objective.traits.own_samples is not None:
            return {}  # answers are graded without them
        model, run = self.subject.model, self.run.but(plan=PLAN)
        return whole_partners(run, model, self.corpus.tokenizer, self.subject.run)


@dataclass(frozen=True)
class EvaluationResult:
    """`evaluated`: the loss and the objective's metrics; `text`: more of running text, where its every token is predicted."""

    evaluated: Evaluated
    text: TextFigures | None = None


def task_of(
    subject: Subject,
    paths: tuple[str, ...],
    changes: Mapping[str, Any] | None = None,
    *,
    by_document: bool | None = None,
    stride: int | None = None,
    progress: bool = True,
) -> EvaluationTask:
    """The evaluation of a model on `paths`, or on what its run held out; `changes`: of the run, by path.

    `by_document`: whether documents of running text are read one by one; None: those of a model that is from no run here, and
    whose tokenizer puts something before a text, which a window inside a document would lack. `stride`: positions between the
    windows of a document, None: windows that follow one another.
    """
    run = described(subject, paths, changes)
    likely = run.objective.traits.likelihood
    if (by_document or stride is not None) and not likely:
        raise UserError(
            f"documents are read one by one for the likelihood of text, and the objective is {run.objective.kind!r}"
        )
    if stride is not None and not 1 <= stride < run.length:
        raise UserError(f"stride = {stride} should be at least 1, and less than the length of a window ({run.length:,})")
    own = own_data(subject)
    trained = None if own is None else own[1]
    corpus = whole(run, trained, labels=labels_of(subject.path), progress=progress) if paths else corpus_of(run)
    if subject.run is None and (changes or {}).get("length") is None:
        run = run.but(length=longest(run, corpus))
    if by_document is None:
        by_document = subject.run is None and bool(corpus.tokenizer.frame.single.before)
    return EvaluationTask(subject, run, corpus, Reads(likely and (by_document or stride is not None), stride))


def longest(run: Run, corpus: Corpus) -> int:
    """The positions of the longest record that the run's length holds, where there are records: a published model may read far
    more than any of them takes. Else the run's length."""
    if not isinstance(run.objective, RecordObjective) or not isinstance(corpus.validation, RecordTable):
        return run.length
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    lengths = run.objective.lengths(corpus.validation, setting)
    held = lengths[lengths <= run.length]
    return int(held.max()) if len(held) else run.length


def measure(task: EvaluationTask, progress: Progress = lambda done: None) -> EvaluationResult:
    """The loss and metrics over all of the data. `progress` is called after every batch with what was read so far."""
    objective, feed, model = task.objective, task.feed, task.subject.model
    if objective.traits.likelihood and isinstance(objective, TokenObjective) and isinstance(feed, TextFeed):
        reading = task.reading.of(feed, task.subject, task.corpus.tokenizer)
        text = text_figures(model, objective, reading, PLAN, progress)
        return EvaluationResult(_of_text(text, reading.whole), text)
    result = evaluate(
        model, objective, feed, PLAN, partners=task.partners, names=task.corpus.names, progress=progress,
        tokenizer=task.corpus.tokenizer if model.share is None else None, samples=task.samples,
    )  # fmt: skip
    if not result.count:
        raise UserError(f"{', '.join(task.run.data.places)}: there is nothing to predict in it")
    return EvaluationResult(result)


def _of_text(text: TextFigures, whole: int) -> Evaluated:
    sums = text.whole
    metrics = {
        "accuracy": sums.accuracy,
        "top_5_accuracy": sums.top_5_accuracy,
        "calibration_error": text.calibration_error,
    }
    return Evaluated(sums.loss, sums.count, whole, whole, "tokens", text.bits_per_byte, metrics)


def against(
    task: EvaluationTask, measured: EvaluationResult, other: Subject, progress: Progress = lambda done: None
) -> PairedDifference:
    """The difference of the losses of two models on the same rows or documents: the first one minus `other`.

    `other` is given the very examples of the first one. If it has another tokenizer, whole documents are compared, by the loss
    of all of their text per token of the first one.
    """
    first, second = task, replace(task, subject=other)
    same = other.tokenizer is None or other.tokenizer == task.corpus.tokenizer
    if not same:
        second = _retokenised(task, other)
    else:
        _check(task, other)
    if measured.text is not None:
        theirs = measure(second, progress).text
        assert theirs is not None, "the same objective"
        mine, number = measured.text, int((measured.text.documents[:, 0] > 0).sum())
        if same and number < DOCUMENTS_FROM:
            return paired(mine.rows[:, 1], theirs.rows[:, 1], mine.rows[:, 0], unit="rows")
        return paired(mine.documents[:, 1], theirs.documents[:, 1], mine.documents[:, 0], unit="documents")
    ours, unit = unit_losses(first)
    theirs_too, _ = unit_losses(second, progress)
    return paired(ours[:, 1], theirs_too[:, 1], ours[:, 0], unit=unit)


def _check(task: EvaluationTask, other: Subject) -> None:
    architecture = other.model.architecture
    try:
        task.objective.check(architecture)
    except ValueError as error:
        raise UserError(f"{other.path}: {error}") from None
    for name, vocab in architecture.vocabularies.items():
        if task.corpus.tokenizer.vocab_size > vocab:
            raise UserError(
                f"{other.path}: the tokenizer of {task.subject.path} has {task.corpus.tokenizer.vocab_size:,} tokens, and "
                f"its {name} {vocab:,} rows"
            )
    for name, stack in architecture.stacks.items():
        if stack.max_length is not None and task.run.length > stack.max_length:
            raise UserError(
                f"{other.path}: length {task.run.length:,} is longer than the position table of its {name} "
                f"({stack.max_length:,}): compare at a shorter one, --set length={stack.max_length}"
            )


def _retokenised(task: EvaluationTask, other: Subject) -> EvaluationTask:
    """The same documents in the tokens of `other`; refused where no documents can be compared."""
    paths = task.run.data.places
    if not task.objective.traits.likelihood or task.run.data.holds_out:
        raise UserError(
            f"{other.path}: has another tokenizer than {task.subject.path}; such models are compared by the likelihood of "
            "whole documents, under next-token prediction, of text given by --data"
        )
    own = {"length": task.run.length, "data.validation": 0.0}
    theirs = task_of(other, paths, own, by_document=task.reading.by_document, stride=task.reading.stride)
    if not theirs.objective.traits.likelihood:
        raise UserError(f"{other.path}: was trained with the {theirs.objective.kind} objective, which predicts no whole text")
    return theirs


def unit_losses(task: EvaluationTask, progress: Progress = lambda done: None) -> tuple[Floats, str]:
    """(units, 2): the number of targets and the summed loss of each unit, and what a unit is.

    A unit is a row; a batch, where the loss of a row depends on the others.
    """
    objective, feed, model, units = without_penalties(task.objective), task.feed, task.subject.model, []
    seen, partners, alone = 0, task.partners, isinstance(objective, TokenObjective)
    with torch.no_grad():
        for part in feed.once():
            examples = prepared(objective, part.to(model.device), partners)
            size = 1 if alone else len(examples.rows)
            for at in range(0, len(examples.rows), size):
                row = examples.slice(at, at + size)
                if row.count:
                    loss = objective.signal(model, row, None, Auxiliary(objective.counted(row)), partners)
                    units.append((float(row.count), float(loss)))
            seen += len(examples.rows)
            progress(min(seen * feed.each, feed.whole))
    return np.array(units or [(math.nan, math.nan)]), "rows" if alone else "batches"
