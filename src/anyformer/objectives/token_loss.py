"""Cross-entropy over tokens, with the options that every objective of tokens has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.model.loss import likeliest, mean_logits, token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.frequencies import frequency_loss
from anyformer.objectives.objective import (
    PENALTY,
    Inputs,
    Objective,
    Partners,
    Penalty,
    Totals,
    of_divided_logits,
    without_penalties,
)
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary


class TokenObjective(Objective):
    """An objective that predicts a token at each of some positions.

    loss = w (-(1 - s) log p[target] - s mean_v log p[v]) + z_loss * log(Z)^2, summed over the targets: s is the label
    smoothing,
    w the target's weight. Z is the softmax's denominator; the z-loss keeps it near 1 (PaLM, arXiv 2204.02311, section 5).
    """

    teachable: ClassVar[bool] = True
    """Whether `logits` are all that the loss is of, so that a teacher's can stand beside them."""
    z_loss: Penalty = 0.0
    """Factor of log(Z)^2; PaLM: 0.0001."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1), PENALTY] = 0.0
    """Share of a target's probability that is spread over all tokens (Szegedy et al. 2016, arXiv 1512.00567); Vaswani:
    0.1."""

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, of_tokens=True)

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        """What the model reads of the examples beside their tokens: arguments of `Transformer.forward`."""
        raise NotImplementedError

    @of_divided_logits
    def of_targets(self, outputs: Tensor, examples: Examples) -> Tensor:
        """Of the model's outputs the logits of all targets, (B, T, V) or (B, V)."""
        return outputs

    def logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """The logits of all targets, as a teacher or an evaluation is asked for them. A loss reads the same: to change what it
        is of, override `inputs` or `of_targets`."""
        outputs = model(examples.tokens, **self.inputs(model, examples), noise=noise, auxiliary=auxiliary)
        return self.of_targets(outputs, examples)

    @of_divided_logits
    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        outputs = model(examples.tokens, **self.inputs(model, examples), noise=noise, auxiliary=auxiliary)
        return self.token_loss(self.of_targets(outputs, examples), examples)

    @of_divided_logits
    def token_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        """The loss of logits (B, T, V) or (B, V), summed over the targets: a 0-d tensor in fp32."""
        valid = examples.targets != IGNORED
        nll, log_z = token_losses(logits, examples.targets)
        if self.label_smoothing:
            uniform = torch.where(valid, log_z - mean_logits(logits), 0.0)
            nll = (1 - self.label_smoothing) * nll + self.label_smoothing * uniform
        if examples.weights is not None:
            nll = nll * examples.weights
        total = nll.sum()
        if self.z_loss:
            total = total + self.z_loss * (log_z.square() * valid).sum()
        return total

    @of_divided_logits
    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        return self.token_statistics(self.logits(model, examples, None, auxiliary), examples)

    @of_divided_logits
    def token_statistics(self, logits: Tensor, examples: Examples) -> dict[str, Tensor]:
        """The statistics of logits (B, T, V) or (B, V)."""
        valid = examples.targets != IGNORED
        return {
            "loss": without_penalties(self).token_loss(logits, examples),
            "targets": valid.sum(),
            "correct": ((likeliest(logits) == examples.targets) & valid).sum(),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        return {"accuracy": float(totals["correct"] / totals["targets"].clamp(min=1))}

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        return "the frequencies of the targets alone", frequency_loss(training, steps, held_out, windows, outputs)
