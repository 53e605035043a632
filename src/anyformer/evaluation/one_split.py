"""All of the given data as one split to evaluate, with the classes numbered as the model was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from anyformer.data import Corpus, RecordTable, prepare
from anyformer.data.columns import Column
from anyformer.data.labels import all_in, place_of, tells
from anyformer.data.records import Records
from anyformer.describe import UserError, did_you_mean
from anyformer.text import DataError
from anyformer.training.held_out import corpus_of
from anyformer.training.run import Run

SAYS = "the model's classes are"
Names = Mapping[str, tuple[str, ...]]


def whole(run: Run, trained: Run | None, *, labels: Sequence[str] = (), progress: bool = True) -> Corpus:
    """The corpus of `run`, a description that holds nothing out, with all of it as its held-out split.

    `trained`: the run that the model is from; its classes keep their numbers. `labels`: the classes of a model from elsewhere,
    by its configuration.
    """
    corpus = prepare(run.data, special=run.objective.special(run.length), progress=progress)
    for name, vocab in run.architecture.vocabularies.items():
        if corpus.tokenizer.vocab_size > vocab:
            raise UserError(f"the tokenizer has {corpus.tokenizer.vocab_size:,} tokens, and the model's {name} {vocab:,} rows")
    corpus = replace(corpus, train=replace(corpus.train, name="given"))
    described = any(part.order for part in run.data.components.values() if isinstance(part, Records))
    if corpus.names and not described:
        corpus = renumbered(corpus, corpus_of(trained).names) if trained is not None else numbered(corpus, labels)
    if len(corpus.train) < run.objective.sizes.least_held_out:
        raise DataError(f"{', '.join(run.data.places)}: has {corpus.train.words}: too little to evaluate")
    return replace(corpus, validation=corpus.train)


def numbered(corpus: Corpus, labels: Sequence[str]) -> Corpus:
    """The corpus with its classes numbered as a model's `labels`; `DataError` where it has others than these."""
    if not tells(labels):
        return corpus
    return renumbered(corpus, {column: all_in(column, classes, labels, SAYS) for column, classes in corpus.names.items()})


def renumbered(corpus: Corpus, names: Names) -> Corpus:
    """The corpus with its classes numbered as in `names`; `DataError` names a class that is not there."""
    if all(names.get(column) == classes for column, classes in corpus.names.items()):
        return corpus
    table = corpus.train
    assert isinstance(table, RecordTable), "only records have classes"
    columns = dict(table.columns)
    for name, classes in corpus.names.items():
        numbers = np.array([_number(name, each, names[name]) for each in classes], dtype=np.int64)
        columns[name] = _mapped(columns[name], numbers)
    kept = {**corpus.names, **{name: names[name] for name in corpus.names}}
    return replace(corpus, train=replace(table, columns=columns, names=kept), names=kept)


def _number(column: str, name: str, classes: Sequence[str]) -> int:
    number = place_of(name, classes)
    if number is None:
        raise DataError(f"{column}: the model was not trained on the class {name!r}{did_you_mean(name, classes)}")
    return number


def _mapped(column: Column, numbers: np.ndarray) -> Column:
    """The column with class i as `numbers[i]`; what is below 0 is no class."""
    old = np.asarray(column.numbers)
    return replace(column, numbers=np.where(old >= 0, numbers[old.clip(min=0)], old).astype(old.dtype))
