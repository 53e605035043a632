"""Reward models: a number for an answer, learnt from pairs of which one is preferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import BeforeValidator
from torch import Tensor

from anyformer.data import Data, Preferences, RecordBatch, RecordTable
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.describe import with_kind
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.objective import Partners, Penalty, Setting, Totals, without_penalties
from anyformer.objectives.pair_losses import LogisticLoss, PairLoss
from anyformer.objectives.preference import ANSWERS
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.sequences import outputs, pooled
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_one_number, needs_one_sequence

MARGIN, AGREEMENT = 0, 1
"""What `Examples.facts` (B, 2) holds of each pair: the margin m and the agreement z."""


class RewardObjective(RecordObjective):
    """A reward model, of pairs of answers: z l(d) + (1 - z) l(-d) + centre (r + r')^2, d = r - r' - m.

    r and r', of the chosen answer and of the rejected one, are the one output of the head, pooled, or else at the last token of
    the chat. With l(d) = -log sigmoid(d), z = 1 and m = 0 it is Bradley and Terry's (Ouyang et al. 2022, arXiv 2203.02155,
    equation 1). m, the pair's `data.margin`, asks for more where the chosen answer is much better (Llama 2, Touvron et al.
    2023, arXiv 2307.09288, equation 2). z, its `data.agreement`, is ordinal feedback: the share of judges that prefer the
    chosen answer (Liu et al. 2024, arXiv 2411.12843). `accuracy` is the share of pairs with r > r'.
    """

    reads: ClassVar[type[Data]] = Preferences
    kind: Literal["reward"] = "reward"
    loss: Annotated[PairLoss, BeforeValidator(with_kind("logistic"))] = LogisticLoss()
    """l, the loss of a margin between the rewards."""
    centre: Penalty = 0.0
    """Factor of (r + r')^2, since pairs say nothing of the rewards' level (Eisenstein et al. 2023, arXiv 2312.09244: 0.01)."""

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(len(ANSWERS))

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give one number."""
        needs_one_sequence(self.kind, architecture)
        needs_one_number(self.kind, architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return np.maximum(*(table.lengths(name) for name in ANSWERS))

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`tokens` (2 B, T): the chosen and the rejected chat of a pair stand together; `facts` (B, 2) float32."""
        lines = [record[name].astype(np.int64) for (record,) in batch.records for name in ANSWERS]
        tokens = torch.from_numpy(padded(lines, setting.length, -1))
        judged = [(record.get("margin", 0.0), record.get("agreement", 1.0)) for (record,) in batch.records]
        return Examples(
            tokens.clamp(min=0), torch.zeros(len(judged), dtype=torch.int64), None, torch.from_numpy(batch.rows),
            padding=tokens < 0, counts=torch.ones(len(judged), dtype=torch.float64),
            facts=torch.tensor([[float(number) for number in pair] for pair in judged]),
        )  # fmt: skip

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        pairs = len(made.rows)
        return replace(made, targets=torch.zeros(pairs, dtype=torch.int64), facts=torch.zeros(pairs, 2))

    def rewards(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B, 2) in fp32: of the chosen answer and of the rejected one."""
        given = outputs(model, examples, noise and noise.of_each(len(ANSWERS)), auxiliary)
        return pooled(given, examples)[:, 0].float().view(-1, len(ANSWERS))

    def losses(self, rewards_B2: Tensor, facts_B2: Tensor) -> Tensor:
        """(B,): of rewards, and of how the pairs were judged."""
        margins_B = rewards_B2[:, 0] - rewards_B2[:, 1] - facts_B2[:, MARGIN]
        agreement_B = facts_B2[:, AGREEMENT]
        found_B = agreement_B * self.loss.losses(margins_B, 1.0) + (1 - agreement_B) * self.loss.losses(-margins_B, 1.0)
        return found_B + self.centre * rewards_B2.sum(1).square() if self.centre else found_B

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        assert examples.facts is not None, "made by `examples`"
        return self.losses(self.rewards(model, examples, noise, auxiliary), examples.facts).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        assert examples.facts is not None, "made by `examples`"
        rewards_B2 = self.rewards(model, examples, None, auxiliary)
        ahead_B = rewards_B2[:, 0] - rewards_B2[:, 1]
        return {
            "loss": without_penalties(self).losses(rewards_B2, examples.facts).sum(),
            "pairs": torch.tensor(len(ahead_B)),
            "right": (ahead_B > 0).sum(),
            "ahead": ahead_B.sum(),
            "rewards": rewards_B2.sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        pairs = totals["pairs"].clamp(min=1)
        return {
            "accuracy": float(totals["right"] / pairs),
            "margin": float(totals["ahead"] / pairs),
            "mean_reward": float(totals["rewards"] / (2 * pairs)),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        found = [
            without_penalties(self).losses(torch.zeros_like(facts), facts)
            for facts in (examples.facts for examples in held_out.once(windows)) if facts is not None
        ]  # fmt: skip
        return ("a model that values all answers alike", float(torch.cat(found).mean())) if found else None
