"""Masked diffusion of text."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field

from anyformer.data import IGNORED, Batch, Data
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.text import TextObjective, WindowBatch
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.requirements.needs import needs_both_sides, needs_one_sequence, needs_token_logits
from anyformer.text import Specials


class DiffusionObjective(TextObjective, TokenObjective):
    """A bound on -log p(x) by masking at every rate: E_t [1 / t * sum_{i masked} -log p(x_i | the row with masks)], t even
    in (0, 1).

    t is drawn for each row; each token is masked with probability t; the loss is divided by all tokens of the row (Nie et
    al. 2025,
    LLaDA, arXiv 2502.09992, equation 3; Sahoo et al. 2024, arXiv 2406.07524).
    """

    kind: Literal["diffusion"] = "diffusion"
    least: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    """The least rate, so that no weight exceeds its inverse."""

    def special(self, length: int) -> Specials:
        return Specials(roles=("mask",))

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of tokens, or in which no token sees later ones."""
        needs_one_sequence("diffusion", architecture)
        needs_token_logits("diffusion", architecture)
        needs_both_sides("diffusion", architecture)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, noise = WindowBatch.of(batch), Noise.at(setting.seed, 0, torch.from_numpy(batch.rows))
        rate_B1 = self.least + (1 - self.least) * uniform(noise, 0, torch.Size((len(batch.rows), 1)))
        real_BT = torch.ones_like(given.tokens, dtype=torch.bool) if given.padding is None else ~given.padding
        masked_BT = real_BT & (uniform(noise, 1, given.tokens.shape) < rate_B1)
        return Examples(
            torch.where(masked_BT, setting.tokenizer.special("mask"), given.tokens),
            torch.where(masked_BT, given.tokens, IGNORED),
            given.documents,
            given.rows,
            padding=given.padding,
            weights=(1 / rate_B1).expand_as(masked_BT).contiguous(),
            counts=real_BT.sum(1).double(),
        )

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, weights=torch.ones(made.targets.shape), counts=torch.ones(shape.batch, dtype=torch.float64))

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {"padding": examples.padding, "documents": examples.documents}
