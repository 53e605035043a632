"""A generated task, read as a source and a target."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Data
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.answers import AnswersObjective, facts_of
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.source_target import padded_pairs, pair_inputs
from anyformer.operations import Shape
from anyformer.requirements.needs import needs_source, needs_token_logits
from anyformer.tasks import Task, TaskBatch, TaskData, Transduction


class TaskSeq2SeqObjective(AnswersObjective):
    """Cross-entropy of the answer of a generated task given its question: -sum_i log p(y_i | x, y_1 ... y_{i-1}).

    For tasks of a question and one answer behind it (copying, reversal, sorting, ...). The question is the source; the decoder
    reads the answer shifted right behind the end-of-text token.
    """

    kind: Literal["task_seq2seq"] = "task_seq2seq"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a source of text."""
        needs_source(self.kind, architecture)
        needs_token_logits(self.kind, architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, TaskData), "checked before"
        if not isinstance(data.task, Transduction):
            fitting = sorted(kind for kind, task in Task.kinds.items() if issubclass(task, Transduction))
            raise ValueError(
                f"the {self.kind} objective needs a question and one answer behind it, which {data.task.kind} has not: "
                f"choose one of {', '.join(fitting)}, or objective.kind = 'task' and an architecture with one input"
            )

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, two_inputs=True)

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def examples(self, drawn: TaskBatch, rows: Ints, setting: Setting, numbers: Ints, each: int) -> Examples:
        facts, sources, entered, wanted, known = facts_of(drawn).numpy(), [], [], [], []
        for row, source in enumerate(drawn.sources.tolist()):
            answer = numbers[drawn.targets[row, source:][drawn.targets[row, source:] != IGNORED]]
            sources.append(numbers[drawn.tokens[row, :source]])
            entered.append(np.concatenate([numbers[-1:], answer[:-1]]))
            wanted.append(answer)
            known.append(facts[row, source : source + len(answer)])
        shape = (len(rows), setting.length)
        source, target = (torch.from_numpy(padded(each, setting.length, -1)) for each in (sources, entered))
        of_targets = np.zeros((*shape, facts.shape[-1]), dtype=np.float32)
        for row, fact in enumerate(known):
            of_targets[row, : len(fact)] = fact
        return Examples(
            source.clamp(min=0), torch.from_numpy(padded(wanted, setting.length, IGNORED)), None, torch.from_numpy(rows),
            decoder_tokens=target.clamp(min=0), padding=source < 0, decoder_padding=target < 0,
            facts=torch.from_numpy(of_targets),
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        return padded_pairs(super().made_up(architecture, data, shape))

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return pair_inputs(examples)
