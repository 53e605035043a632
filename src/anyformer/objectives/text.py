"""Objectives whose examples are windows of running text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from anyformer.data import Batch, Corpus, Data, Split, Text
from anyformer.data.openings import opening
from anyformer.model import Architecture
from anyformer.objectives.aspects import LossTraits, SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import TextFeed
from anyformer.objectives.objective import Objective, Setting
from anyformer.operations import Shape
from anyformer.text import DataError, Tokenizer


class TextObjective(Objective):
    """An objective on windows of text: it turns each batch of windows into examples."""

    reads: ClassVar[type[Data]] = Text

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, prompt=opened)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, least_held_out=2)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        """The examples of a batch of windows: a pure function of the batch and the setting, its seed and `batch.rows`
        included."""
        raise NotImplementedError

    def window(self, length: int) -> int:
        """The tokens of running text that become a row of `length` positions."""
        return length

    def beyond(self, tokenizer: Tokenizer) -> int:
        """The positions that a tokenizer's special tokens take in a row beyond those that `window` leaves to them."""
        return 0

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        isolated = isinstance(data, Text) and data.isolate
        return replace(made, documents=torch.zeros(made.targets.shape, dtype=torch.int64)) if isolated else made

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> TextFeed:
        split = corpus.validation if held_out else corpus.train
        assert isinstance(data, Text), "checked when the run was described"
        assert isinstance(split, Split), "text is prepared as running tokens"
        length, make = self._room(setting), partial(self.examples, setting=setting)
        feed = TextFeed(split, length, batch, setting.seed, data.isolate, data.sampling, make)
        if not held_out:
            _ = feed.batches  # refuses a split that is shorter than a window
        return feed

    def _room(self, setting: Setting) -> int:
        """The tokens of running text in a row."""
        room = self.window(setting.length - self.beyond(setting.tokenizer))
        if room < 1:
            raise DataError(
                f"length = {setting.length} has no room beside the tokens that this tokenizer puts around a text; set more"
            )
        return room


def opened(corpus: Corpus, number: int) -> str:
    """How a held-out text opens."""
    assert isinstance(corpus.validation, Split), "text is prepared as running tokens"
    return opening(corpus.validation, corpus.tokenizer, number)


class WindowBatch(NamedTuple):
    """A batch of windows as tensors: `tokens`, and `documents`, `padding` if any, (B, T); `rows` (B,)."""

    tokens: Tensor
    rows: Tensor
    documents: Tensor | None
    padding: Tensor | None

    @classmethod
    def of(cls, batch: Batch) -> WindowBatch:
        documents = None if batch.documents is None else torch.from_numpy(batch.documents)
        padding = None if batch.padding is None else torch.from_numpy(batch.padding.copy())
        return cls(torch.from_numpy(batch.tokens), torch.from_numpy(batch.rows), documents, padding)


def lengths_of(window: WindowBatch) -> Tensor:
    """(B,): the number of tokens of each row; they stand before its padding."""
    if window.padding is None:
        return torch.full((len(window.tokens),), window.tokens.shape[1])
    return (~window.padding).sum(1)
