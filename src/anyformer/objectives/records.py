"""Objectives whose examples are records: pairs, chats, texts with labels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from anyformer.data import Corpus, Data, PackedRows, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, RecordFeed
from anyformer.objectives.objective import Objective, Setting
from anyformer.operations import Shape
from anyformer.text import DataError
from anyformer.text.chat import first_question


class RecordObjective(Objective):
    """An objective on records: one per row, padded, unless it packs them."""

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """The examples of a batch of rows: a pure function of the batch and the setting, its seed and `batch.rows` included."""
        raise NotImplementedError

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        """(records,): the positions that each record takes; one that takes more than T is left out."""
        raise NotImplementedError

    def rows(self, table: RecordTable, setting: Setting) -> PackedRows:
        """Which records stand in which row."""
        return PackedRows.single(np.flatnonzero(self.lengths(table, setting) <= setting.length))

    def check_corpus(self, corpus: Corpus, setting: Setting) -> None:
        """Refuse prepared data that the objective cannot use, with the reason."""

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        """As the base says, with padding."""
        made = super().made_up(architecture, data, shape)
        counts = torch.ones(len(made.rows), dtype=torch.float64)
        return replace(made, padding=torch.zeros(shape.batch, shape.length, dtype=torch.bool), counts=counts)

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        if held_out:
            return self._feed(corpus.validation, setting, batch)
        self.check_corpus(corpus, setting)
        feed = self._feed(corpus.train, setting, batch)
        _ = feed.batches  # refuses a table without a row
        return feed

    def _feed(self, table: object, setting: Setting, batch: int) -> RecordFeed:
        assert isinstance(table, RecordTable), "records are prepared as a table"
        rows = self.rows(table, setting)
        if len(table) and not len(rows):
            longest = int(self.lengths(table, setting).min())
            raise DataError(
                f"the {table.name} split has {len(table):,} records, and the shortest takes {longest:,} positions: none "
                "fits into "
                f"length = {setting.length:,}; set a greater length"
            )
        make = partial(self.examples, setting=setting)
        return RecordFeed(table, rows, batch, setting.seed, make, setting.tokenizer)


def question_of(column: str, corpus: Corpus, number: int) -> str:
    """The first question of a held-out chat, in this column."""
    assert isinstance(corpus.validation, RecordTable), "records are prepared as a table"
    return first_question(corpus.tokenizer, corpus.validation[number % len(corpus.validation)][column])
