"""A generated task, read as one sequence."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Data
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.answers import AnswersObjective, facts_of
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.operations import Shape
from anyformer.requirements.needs import (
    needs_hidden_targets,
    needs_no_later,
    needs_one_sequence,
    needs_packing,
    needs_token_logits,
)
from anyformer.tasks import NOTHING, TaskBatch, TaskData


class TaskObjective(AnswersObjective):
    """Cross-entropy of the answers of a generated task: -sum_{i asked} log p(y_i | x_1 ... x_i).

    The task says where it asks; what is only read is never predicted. Metrics: the share of targets that are right, that of
    answers all of whose targets are, and what a guess reaches of each.
    """

    kind: Literal["task"] = "task"
    pack: bool = False
    """Put as many sequences of `data.longest` positions into a row as fit, each a document; False: one each."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of tokens, in which a token sees its target, or, with `pack`, in which
        sequences of a row would mix."""
        needs_one_sequence(self.kind, architecture)
        needs_token_logits(self.kind, architecture)
        needs_hidden_targets(self.kind, architecture)
        needs_no_later(self.kind, architecture)
        if self.pack:
            needs_packing(self.kind, architecture, "pack = false")

    def each(self, data: TaskData, length: int) -> int:
        return length // data.lengths(length)[1] if self.pack else 1

    def examples(self, drawn: TaskBatch, rows: Ints, setting: Setting, numbers: Ints, each: int) -> Examples:
        asked = np.where(drawn.targets == IGNORED, NOTHING, drawn.targets)
        tokens, targets, padding, facts = (
            _in_rows(torch.from_numpy(x) if isinstance(x, np.ndarray) else x, len(rows), setting.length, fill)
            for x, fill in (
                (numbers[drawn.tokens], int(numbers[NOTHING])),
                (np.where(asked == NOTHING, IGNORED, numbers[asked]), IGNORED),
                (drawn.tokens == NOTHING, True),
                (facts_of(drawn), 0.0),
            )
        )
        documents = torch.arange(setting.length).div(drawn.tokens.shape[1], rounding_mode="floor").expand(len(rows), -1)
        return Examples(
            tokens, targets, documents.contiguous() if self.pack else None, torch.from_numpy(rows), padding=padding, facts=facts
        )

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, documents=torch.zeros(made.targets.shape, dtype=torch.int64)) if self.pack else made

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        # Padding comes last in its document, where no target sees it: it needs no mask.
        return {"documents": examples.documents}


def _in_rows(x: Tensor, rows: int, length: int, fill: float) -> Tensor:
    """(rows * each, N, ...) -> (rows, `length`, ...): sequences of a row one behind the other, then `fill`."""
    joined = x.reshape(rows, -1, *x.shape[2:])
    result = torch.full((rows, length, *x.shape[2:]), fill, dtype=x.dtype)
    result[:, : joined.shape[1]] = joined
    return result
