"""Next-token prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from anyformer.data import IGNORED, Batch, interpolated_bigram_loss
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, TextFeed
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.text import TextObjective, WindowBatch
from anyformer.objectives.token_loss import TokenObjective
from anyformer.requirements.usual import BY_KIND


class NextToken(TextObjective, TokenObjective):
    """An objective whose targets are the next tokens of running text."""

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, likelihood=True, unread=super().baseline)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        return self.next_tokens(batch)

    def next_tokens(self, batch: Batch) -> Examples:
        """The examples of a batch of windows, which need no setting."""
        given = WindowBatch.of(batch)
        # Positions beyond the end of the split come last, where no target sees them: they need no mask.
        return Examples(given.tokens, torch.from_numpy(batch.targets), given.documents, given.rows)

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {"documents": examples.documents}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        assert isinstance(training, TextFeed)
        assert isinstance(held_out, TextFeed)
        loss = interpolated_bigram_loss(training.tokens(steps), held_out.lines(windows), outputs)
        return "an interpolated bigram model of the tokens it trained on", loss


class CausalObjective(NextToken):
    """Cross-entropy of the next token: -sum_i log p(x_{i+1} | x_1 ... x_i).

    With `data.isolate` tokens see only their own document, and no target crosses from one document to the next.
    """

    kind: Literal["causal"] = "causal"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of the next token, with predictions of later ones that would never be trained,
        or in which a token sees its target."""
        BY_KIND["causal"].check(architecture)
