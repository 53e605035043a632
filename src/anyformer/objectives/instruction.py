"""Instruction tuning: the answers of chats."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch

from anyformer.data import IGNORED, Data, Dialogue, PackedRows, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.prefix import reads_prefix
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.records import RecordObjective, question_of
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.requirements.needs import (
    needs_hidden_targets,
    needs_no_later,
    needs_one_sequence,
    needs_packing,
    needs_token_logits,
)


class InstructionObjective(RecordObjective, TokenObjective):
    """Cross-entropy of the answers of chats: -sum_{i in A} log p(x_i | x_1 ... x_{i-1}), A the tokens of answers.

    A has each answer's first token and the one that ends its turn; what is asked is read, and never predicted (Ouyang et al.
    2022, arXiv 2203.02155, section 3.4). Chats that share a row do not see each other, and positions restart with each. A mask
    with a prefix reads what stands before the first answer both ways.
    """

    reads: ClassVar[type[Data]] = Dialogue
    kind: Literal["instruction"] = "instruction"
    pack: bool = True
    """Put as many chats into a row as fit; False: one each."""
    too_long: Literal["leave_out", "cut"] = "leave_out"
    """Chats that take more than T positions are left out, or their ends are cut off."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token, in which a token sees its target, or, with `pack`, in which
        chats of a row would mix, or a prefix would be that of one of them."""
        needs_one_sequence(self.kind, architecture)
        needs_token_logits(self.kind, architecture)
        needs_hidden_targets(self.kind, architecture)
        needs_no_later(self.kind, architecture)
        if self.pack:
            needs_packing(self.kind, architecture, "pack = false")
            if reads_prefix(architecture):
                raise ValueError(
                    "the instruction objective packs several chats into a row, and a mask of this architecture reads the first "
                    "tokens of a row as a prefix: set pack = false, so that each first question is one"
                )

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, chats=True, prompt=partial(question_of, "tokens"))

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        # The last token of a chat is predicted and never read.
        lengths: Ints = np.maximum(table.lengths("tokens") - 1, 1)
        return lengths if self.too_long == "leave_out" else np.minimum(lengths, setting.length)

    def rows(self, table: RecordTable, setting: Setting) -> PackedRows:
        if not self.pack:
            return super().rows(table, setting)
        return PackedRows.packed(self.lengths(table, setting), setting.length, setting.seed)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        size = (len(batch.records), setting.length)
        tokens, targets = np.zeros(size, dtype=np.int64), np.full(size, IGNORED, dtype=np.int64)
        documents = np.zeros(size, dtype=np.int64)
        for row, chats in enumerate(batch.records):
            at = 0
            for number, chat in enumerate(chats):
                line = chat["tokens"].astype(np.int64)
                stop = at + min(len(line) - 1, setting.length - at)
                place = slice(at, stop)
                tokens[row, place] = line[: stop - at]
                targets[row, place] = np.where(chat["answers"] > 0, line, IGNORED)[1 : stop - at + 1]
                documents[row, place] = number
                at = stop
            documents[row, at:] = len(chats)
        # The positions after the last chat are a document of their own, which nothing real sees.
        padding = documents == np.array([len(chats) for chats in batch.records])[:, None]
        # The last token before the first answer predicts it.
        asked = torch.from_numpy((targets != IGNORED).argmax(1) + 1)
        return Examples(
            torch.from_numpy(tokens), torch.from_numpy(targets), torch.from_numpy(documents) if self.pack else None,
            torch.from_numpy(batch.rows), padding=torch.from_numpy(padding), prefix=None if self.pack else asked,
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, documents=torch.zeros(made.targets.shape, dtype=torch.int64)) if self.pack else made

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        # Padding comes last, where no target sees it: it needs no mask.
        return {"documents": examples.documents, "prefix": examples.prefix}
