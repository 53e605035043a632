"""The base of objectives on generated tasks: the loss of what is asked, and how many answers are right beside the chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Corpus, Data, Endless
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.loss import likeliest
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting, Totals, of_divided_logits
from anyformer.objectives.task_feed import TaskFeed
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.tasks import TaskBatch, TaskData
from anyformer.tasks.symbols import numbers_of, vocabulary_of

_FIRST = np.zeros(1, dtype=np.int64)
NUMBER, CHANCE, DISTANCE = 0, 1, 2
"""What `Examples.facts` (B, T, 3) holds of each target: the number of its answer in the row, its chance, and how far back it
stands (`TaskBatch`)."""


class AnswersObjective(TokenObjective):
    """The base of objectives on generated tasks: -sum_{i asked} log p(y_i | what is read up to i)."""

    reads: ClassVar[type[Data]] = TaskData

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        """As the base, and refuse a vocabulary with too few rows for the task's symbols."""
        super().check_data(data, architecture, length)
        assert isinstance(data, TaskData), "checked before"
        needed = vocabulary_of(data.symbols)
        for name, vocab in architecture.vocabularies.items():
            if vocab < needed:
                raise ValueError(
                    f"the task {data.task.kind} has {len(data.symbols):,} symbols and 2 special tokens, and the {name} "
                    f"{vocab:,} rows: set architecture.{name}.vocab = {needed}, or fewer symbols in data.task"
                )
        data.lengths(length)

    def each(self, data: TaskData, length: int) -> int:
        """Sequences of a row."""
        return 1

    def examples(self, drawn: TaskBatch, rows: Ints, setting: Setting, numbers: Ints, each: int) -> Examples:
        """The examples of sequences: `each` to a row; symbol i is token `numbers[i]`, and nothing is `numbers[-1]`."""
        raise NotImplementedError

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> TaskFeed:
        split = corpus.validation if held_out else corpus.train
        assert isinstance(data, TaskData), "checked when the run was described"
        assert isinstance(split, Endless), "a task has no end"
        _, longest = data.lengths(setting.length)
        each = self.each(data, setting.length)
        end = setting.tokenizer.end_of_text or 0
        numbers = np.array([*numbers_of(setting.tokenizer, data.symbols), end], dtype=np.int64)
        make = partial(self.examples, setting=setting, numbers=numbers, each=each)
        feed = TaskFeed(data, held_out, longest, each, batch, setting.seed, split.count, make)
        _ = feed.drawn(_FIRST, _FIRST)  # refuses a task without a sequence of this split
        return feed

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        """As the base says, with padding and the facts of each position."""
        made = super().made_up(architecture, data, shape)
        padding, facts = torch.zeros(made.targets.shape, dtype=torch.bool), torch.zeros(*made.targets.shape, 3)
        return replace(made, padding=padding, facts=facts)

    @of_divided_logits
    def token_statistics(self, logits: Tensor, examples: Examples) -> dict[str, Tensor]:
        """Those of all objectives of tokens; `answers`: of each row's, how many there are, are right, and are by chance."""
        assert examples.facts is not None, "made by `examples`"
        valid = examples.targets != IGNORED
        wrong = (likeliest(logits) != examples.targets) & valid
        order = torch.where(valid, examples.facts[..., NUMBER], 0).long()
        none = torch.zeros(order.shape, dtype=torch.float64, device=order.device)
        asked, mistakes, chance = (
            none.scatter_add(1, order, each.double())
            for each in (valid, wrong, torch.where(valid, examples.facts[..., CHANCE].double().log(), 0.0).nan_to_num())
        )
        real = asked > 0
        return {
            **super().token_statistics(logits, examples),
            "chance": torch.where(valid, examples.facts[..., CHANCE], 0.0).sum(),
            "answers": real.sum(),
            "right_answers": (real & (mistakes == 0)).sum(),
            "answer_chance": torch.where(real, chance.exp(), 0.0).sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        targets, answers = (totals[name].clamp(min=1) for name in ("targets", "answers"))
        return {
            **super().metrics(totals, names),
            "chance": float(totals["chance"] / targets),
            "whole_answers": float(totals["right_answers"] / answers),
            "chance_of_whole_answers": float(totals["answer_chance"] / answers),
        }


def facts_of(drawn: TaskBatch) -> Tensor:
    """(B, N, 3): `Examples.facts`."""
    return torch.from_numpy(np.stack([drawn.answers, drawn.chances, drawn.distances], axis=-1).astype(np.float32))
