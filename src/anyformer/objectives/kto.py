"""Kahneman-Tversky optimisation: answers that were judged one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import Data, Judgements, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.describe import Positive
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, Partner, SampleSizes, compares_rows
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import question_of
from anyformer.objectives.two_answers import REFERENCE, ROWS, TwoAnswersObjective, answered
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary


class KTOObjective(TwoAnswersObjective):
    """Kahneman-Tversky optimisation: w (1 - sigmoid(beta (d - z))) of a desirable answer, w' (1 - sigmoid(beta (z - d))) of
    another, d = log p(y | x) - log p_ref(y | x).

    z = max(0, the mean of d over the prompts of the micro-batch, with the answer of the row before in place of their own) is an
    estimate of KL(p || p_ref), through which no gradient flows (Ethayarajh et al. 2024, arXiv 2402.01306, equations 7 and 8).
    A sample takes two rows: its answer, and that of the row before; the last batch of an evaluation has fewer of them. p_ref is
    the model as it was when the run began. `accuracy` is how often d > z says what the judgement does, `margin` the mean reward
    beta d of desirable answers less that of others, `kl` the mean of z.
    """

    reads: ClassVar[type[Data]] = Judgements
    kind: Literal["kto"] = "kto"
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How strongly the model is held near the one it began as."""
    desirable: Positive = 1.0
    """w. The paper: with n desirable answers and m others, n w is 1 to 4/3 of m w'."""
    undesirable: Positive = 1.0
    """w', the factor of the loss of answers that are not desirable."""

    @property
    def traits(self) -> LossTraits:
        return LossTraits(chats=True, prompt=partial(question_of, "tokens"))

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(ROWS, least_held_out=2, check=compares_rows(self.kind, "answers to other prompts"))

    @property
    def partners(self) -> Mapping[str, Partner]:
        return {REFERENCE: Partner()}

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("tokens") - 1

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`facts` (B, 1): 1 of a desirable answer, else 0. An answer to another's prompt is cut at T."""
        own = [(record["tokens"].astype(np.int64), record["answers"]) for (record,) in batch.records]
        rows = [row for number, each in enumerate(own) for row in (each, _answered_by(each, own[number - 1], setting.length))]
        desirable = torch.tensor([[float(record["desirable"])] for (record,) in batch.records])
        return replace(answered(rows, batch.rows, setting.length), facts=desirable)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, facts=torch.zeros(len(made.rows), 1))

    def counted(self, examples: Examples) -> Tensor | None:
        """As the base, of the answers alone that are judged."""
        assert examples.padding is not None, "made above"
        judged = torch.arange(len(examples.padding), device=examples.padding.device) % ROWS == 0
        return ~examples.padding & judged[:, None]

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        ratios_B, kl = self._ratios(model, examples, noise, auxiliary, partners)
        return self._losses(ratios_B, kl, _desirable(examples)).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        ratios_B, kl = self._ratios(model, examples, None, auxiliary, partners)
        desirable_B = _desirable(examples)
        rewards_B = self.beta * ratios_B.double()
        return {
            "loss": self._losses(ratios_B, kl, desirable_B).sum(),
            "answers": torch.tensor(len(ratios_B)),
            "desirable": desirable_B.sum(),
            "right": ((ratios_B > kl) == desirable_B).sum(),
            "desirable_rewards": torch.where(desirable_B, rewards_B, 0.0).sum(),
            "other_rewards": torch.where(desirable_B, 0.0, rewards_B).sum(),
            "kl": kl * len(ratios_B),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        desirable, answers = totals["desirable"], totals["answers"].clamp(min=1)
        means = [
            totals[name] / count.clamp(min=1)
            for name, count in (("desirable_rewards", desirable), ("other_rewards", totals["answers"] - desirable))
        ]
        return {
            "accuracy": float(totals["right"] / answers),
            "margin": float(means[0] - means[1]),
            "kl": float(totals["kl"] / answers),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """Half of the mean weight: the loss where d and z are 0."""
        weights = torch.cat([self._weights(_desirable(examples)) for examples in held_out.once(windows)] or [torch.zeros(0)])
        return ("the model as it began", float(weights.mean()) / 2) if len(weights) else None

    def _ratios(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> tuple[Tensor, Tensor]:
        """d (B,), and z."""
        answers = self.likelihoods(model, examples, noise, auxiliary)
        own_B, others_B = answers.beside(self.before(examples, partners)).unbind(1)
        return own_B, others_B.detach().mean().clamp(min=0)

    def _losses(self, ratios_B: Tensor, kl: Tensor, desirable_B: Tensor) -> Tensor:
        gains_B = torch.where(desirable_B, ratios_B - kl, kl - ratios_B)
        return self._weights(desirable_B) * torch.sigmoid(-self.beta * gains_B)

    def _weights(self, desirable_B: Tensor) -> Tensor:
        return torch.where(desirable_B, self.desirable, self.undesirable)


def _answered_by(asked: tuple[Ints, Ints], other: tuple[Ints, Ints], length: int) -> tuple[Ints, Ints]:
    """The prompt of one row and the answer of another: T + 1 tokens at most, of which the last is never read."""
    prompt, answer = asked[0][: _begin(asked)], other[0][_begin(other) :]
    learnt = np.repeat([0, 1], [len(prompt), len(answer)])
    return np.concatenate([prompt, answer])[: length + 1], learnt[: length + 1]


def _begin(row: tuple[Ints, Ints]) -> int:
    """Where the answer begins, which is what follows."""
    return int((row[1] > 0).argmax())


def _desirable(examples: Examples) -> Tensor:
    """(B,) bool."""
    assert examples.facts is not None, "made by `examples`"
    return examples.facts[:, 0] > 0
