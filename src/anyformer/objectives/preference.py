"""What the objectives on preferences share: two answers to each prompt, and how likely a model finds them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED, Data, Preferences, RecordBatch, RecordTable
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective, question_of
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_next_token, needs_no_later

ANSWERS = ("chosen", "rejected")


class Likelihoods(NamedTuple):
    """log p(answer | prompt) of both answers, the chosen one first, and their numbers of tokens: (B, 2) each, in fp32."""

    total: Tensor
    tokens: Tensor

    @property
    def mean(self) -> Tensor:
        """log p per token, (B, 2)."""
        return self.total / self.tokens.clamp(min=1)


class PreferenceObjective(RecordObjective):
    """An objective on pairs of answers, one preferred: a loss for each pair, and a reward for each answer.

    A sample takes two rows, the chosen chat and the rejected one; its loss counts once, however long they are.
    """

    reads: ClassVar[type[Data]] = Preferences

    @property
    def traits(self) -> LossTraits:
        return LossTraits(chats=True, prompt=partial(question_of, "chosen"))

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(len(ANSWERS))

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token, or in which a token sees its target."""
        needs_next_token(self.kind, architecture)
        needs_no_later(self.kind, architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return np.maximum(table.lengths("chosen"), table.lengths("rejected")) - 1

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        lines, wanted = [], []
        for (record,) in batch.records:
            for name in ANSWERS:
                line = record[name].astype(np.int64)
                lines.append(line[:-1])
                wanted.append(np.where(record[f"{name}_answers"] > 0, line, IGNORED)[1:])
        tokens = torch.from_numpy(padded(lines, setting.length, -1))
        return Examples(
            tokens.clamp(min=0), torch.from_numpy(padded(wanted, setting.length, IGNORED)), None, torch.from_numpy(batch.rows),
            padding=tokens < 0, counts=torch.ones(len(batch.rows), dtype=torch.float64),
        )  # fmt: skip

    def likelihoods(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None
    ) -> Likelihoods:
        """How likely a model finds the answers."""
        if noise is not None:
            # Each row draws noise of its own: a sample has two.
            noise = Noise(noise.key, (2 * noise.rows[:, None] + torch.arange(2, device=noise.rows.device)).flatten())
        # Padding comes last, where no target sees it: it needs no mask.
        logits = model(examples.tokens, noise=noise, auxiliary=auxiliary)
        losses, _ = token_losses(logits, examples.targets)
        return Likelihoods(-losses.sum(1).view(-1, 2), (examples.targets != IGNORED).sum(1).view(-1, 2).float())

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
