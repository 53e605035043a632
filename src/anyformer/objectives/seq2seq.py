"""Sequence to sequence: a target from a source."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, RecordBatch, RecordTable, TextPairs
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.source_target import NOTHING, padded_pairs, pair_inputs, pairs
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.requirements.usual import BY_KIND
from anyformer.text.sides import Sides

_FEW = 16
"""Records among which a prompt is looked for."""


class Seq2SeqObjective(RecordObjective, TokenObjective):
    """Cross-entropy of a target given its source: -sum_i log p(y_i | x, y_1 ... y_{i-1}).

    Source and target are framed as the tokenizer does it, and the decoder reads the target shifted right (teacher forcing)
    behind the token that the model's authors start it with, which is the end of a text where they name none; it predicts all
    of the target, the end included (Sutskever et al. 2014, arXiv 1409.3215; Vaswani et al. 2017).
    """

    reads: ClassVar[type[Data]] = TextPairs
    kind: Literal["seq2seq"] = "seq2seq"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a source of text."""
        BY_KIND["seq2seq"].check(architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return np.maximum(table.lengths("source"), table.lengths("target"))

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        source, target = (
            torch.from_numpy(padded([record[name] for (record,) in batch.records], setting.length, NOTHING))
            for name in ("source", "target")
        )
        return pairs(source, target, torch.from_numpy(batch.rows), Sides.of(setting.tokenizer).start)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        return padded_pairs(super().made_up(architecture, data, shape))

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, two_inputs=True, prompt=source_of)

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return pair_inputs(examples)


def source_of(corpus: Corpus, number: int) -> str:
    """The source of a held-out record, the shortest of a few."""
    table = corpus.validation
    assert isinstance(table, RecordTable), "records are prepared as a table"
    few: list[list[int]] = [table[(number * _FEW + place) % len(table)]["source"].tolist() for place in range(_FEW)]
    shortest = min(few, key=len)
    return corpus.tokenizer.decode(shortest)
