"""Classification of texts, or of pairs of texts."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import Data, Labelled, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.classes import ClassObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.sequences import FRAME, lengths_of, pooled, sequence_inputs, sequences, texts_of
from anyformer.operations import Shape
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Specials


class ClassificationObjective(ClassObjective):
    """Cross-entropy of the class of a text, or of two texts: -log softmax(logits)[class].

    The logits are those of a head that pools (`head.pool`, `head.outputs`: the number of classes); of a head that does not,
    those of the text's last token, as in a decoder. Two texts are told apart by what the tokenizer puts between them, as
    `[SEP]`, and by the types of their segments where the embedding has two (BERT, arXiv 1810.04805).
    """

    reads: ClassVar[type[Data]] = Labelled
    kind: Literal["classification"] = "classification"
    frame: bool = True
    """Put around the texts what the tokenizer puts there, as `[CLS]` before the first and `[SEP]` behind each."""

    def special(self, length: int) -> Specials:
        return FRAME if self.frame else Specials()

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a number of logits of its own."""
        BY_KIND["classification"].check(architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return lengths_of(table, setting.tokenizer, self.frame)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        given = sequences(texts_of(batch), setting.length, setting.tokenizer, self.frame)
        targets = torch.tensor([int(record["label"]) for (record,) in batch.records])
        counts = torch.ones(len(targets), dtype=torch.float64)
        rows = torch.from_numpy(batch.rows)
        return Examples(given.tokens, targets, None, rows, padding=given.padding, types=given.types, counts=counts)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, types=torch.zeros(shape.batch, shape.length, dtype=torch.int64))

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return sequence_inputs(model, examples)

    def of_targets(self, outputs: Tensor, examples: Examples) -> Tensor:
        return pooled(outputs, examples)
