"""What objectives on answers share: two rows to a sample, and how likely a model and its reference find the answers there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.data.columns import padded
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners
from anyformer.objectives.records import RecordObjective
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.needs import needs_next_token, needs_no_later

ROWS = 2
"""Rows of a sample."""
REFERENCE = "reference"
"""The name of the model that another is compared with: itself as the run began."""


class Likelihoods(NamedTuple):
    """log p(answer | prompt) of both answers, and their numbers of tokens: (B, 2) each, in fp32."""

    total: Tensor
    tokens: Tensor

    @property
    def mean(self) -> Tensor:
        """log p per token, (B, 2)."""
        return self.total / self.tokens.clamp(min=1)

    def beside(self, reference: Likelihoods, *, per_token: bool = False) -> Tensor:
        """(B, 2): log p(y | x) - log p_ref(y | x), over |y| if `per_token`."""
        ratios_B2 = self.total - reference.total
        return ratios_B2 / self.tokens.clamp(min=1) if per_token else ratios_B2


class TwoAnswersObjective(RecordObjective):
    """An objective on the likelihoods of two answers per sample, which take a row each. The base of such objectives."""

    @property
    def sizes(self) -> SampleSizes:
        return SampleSizes(ROWS)

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token, or in which a token sees its target."""
        needs_next_token(self.kind, architecture)
        needs_no_later(self.kind, architecture)

    def likelihoods(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None
    ) -> Likelihoods:
        """How likely a model finds the answers."""
        # Padding comes last, where no target sees it: it needs no mask.
        logits = model(examples.tokens, noise=noise and noise.of_each(ROWS), auxiliary=auxiliary)
        losses, _ = token_losses(logits, examples.targets)
        return Likelihoods(-losses.sum(1).view(-1, ROWS), (examples.targets != IGNORED).sum(1).view(-1, ROWS).float())

    def before(self, examples: Examples, partners: Partners) -> Likelihoods:
        """How likely the reference finds the answers."""
        with torch.no_grad():
            return self.likelihoods(partners[REFERENCE], examples, None, Auxiliary(self.counted(examples)))


def answered(rows: Sequence[tuple[Ints, Ints]], samples: Ints, length: int) -> Examples:
    """The examples of rows, two to a sample: of each its tokens, and which of them belong to the answer."""
    lines = [line[:-1] for line, _ in rows]
    wanted = [np.where(learnt > 0, line, IGNORED)[1:] for line, learnt in rows]
    tokens = torch.from_numpy(padded(lines, length, -1))
    return Examples(
        tokens.clamp(min=0), torch.from_numpy(padded(wanted, length, IGNORED)), None, torch.from_numpy(samples),
        padding=tokens < 0, counts=torch.ones(len(samples), dtype=torch.float64),
    )  # fmt: skip
