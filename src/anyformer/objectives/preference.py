"""What the objectives on preferences share: two answers to each prompt, and how likely a model finds them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Data, Preferences, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import question_of
from anyformer.objectives.two_answers import Likelihoods, TwoAnswersObjective, answered
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary

ANSWERS = ("chosen", "rejected")


class PreferenceObjective(TwoAnswersObjective):
    """An objective on pairs of answers, one preferred: a loss per pair, and a reward per answer.

    A sample takes two rows, the chosen chat and the rejected one; its loss counts once, however long they are.
    """

    reads: ClassVar[type[Data]] = Preferences

    @property
    def traits(self) -> LossTraits:
        return LossTraits(chats=True, prompt=partial(question_of, "chosen"))

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        """As the base, and refuse pairs that are judged by degrees."""
        super().check_data(data, architecture, length)
        assert isinstance(data, Preferences), "checked above"
        if data.rated:
            raise ValueError(
                f"the {self.kind} objective takes all pairs alike, and data.{next(iter(data.rated))} says how they differ: "
                "leave it out, or train a reward model with objective.kind = 'reward'"
            )

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return np.maximum(table.lengths("chosen"), table.lengths("rejected")) - 1

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        rows = [(record[name].astype(np.int64), record[f"{name}_answers"]) for (record,) in batch.records for name in ANSWERS]
        return answered(rows, batch.rows, setting.length)

    def rewards(self, answers: Likelihoods, reference: Likelihoods | None) -> Tensor:
        """(B, 2): how much the model is held to value each answer."""
        raise NotImplementedError

    def losses(self, answers: Likelihoods, rewards: Tensor) -> Tensor:
        """(B,): the loss of each pair."""
        raise NotImplementedError

    def reference(self, examples: Examples, partners: Partners) -> Likelihoods | None:
        """How likely the model found the answers that it is compared with; None where there is none."""
        return None

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        answers = self.likelihoods(model, examples, noise, auxiliary)
        return self.losses(answers, self.rewards(answers, self.reference(examples, partners))).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        answers = self.likelihoods(model, examples, None, auxiliary)
        rewards = self.rewards(answers, self.reference(examples, partners))
        margins = rewards[:, 0] - rewards[:, 1]
        return {
            "loss": self.losses(answers, rewards).sum(),
            "pairs": torch.tensor(len(margins)),
            "right": (margins > 0).sum(),
            "margin": margins.sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        pairs = totals["pairs"].clamp(min=1)
        return {"accuracy": float(totals["right"] / pairs), "margin": float(totals["margin"] / pairs)}
