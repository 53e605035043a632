"""Next-token prediction after a prefix that is read both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator

from anyformer.data import IGNORED, Batch, Data
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.text import TextObjective, WindowBatch
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.requirements.usual import BY_KIND

Share = Annotated[float, Field(ge=0, le=1)]


class PrefixObjective(TextObjective, TokenObjective):
    """Cross-entropy of the tokens after a prefix: -sum_{i > P} log p(x_i | x_1 ... x_{i-1}), the P tokens of the prefix read
    both
    ways.

    P is drawn anew for each row, evenly between two shares of its length (Liu et al. 2018, arXiv 1801.10198; Raffel et al.
    2020,
    arXiv 1910.10683, section 3.2.1).
    """

    kind: Literal["prefix"] = "prefix"
    shortest: Share = 0.1
    """The least share of a row that is its prefix."""
    longest: Share = 0.9
    """The greatest share of a row that is its prefix."""

    @model_validator(mode="after")
    def _in_order(self) -> PrefixObjective:
        if self.shortest > self.longest:
            raise ValueError(f"shortest = {self.shortest:g} is more than longest = {self.longest:g}: exchange them")
        return self

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a prefix mask, or in which a token after the prefix sees its target."""
        BY_KIND["prefix"].check(architecture)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, length = WindowBatch.of(batch), batch.tokens.shape[1]
        drawn_B = uniform(Noise.at(setting.seed, 0, given.rows), 0, torch.Size((len(given.rows), 1)))[:, 0]
        prefix_B = ((self.shortest + (self.longest - self.shortest) * drawn_B) * length).long().clamp(1, length - 1)
        # The last token of the prefix predicts the first one after it.
        inside_BT = torch.arange(length) < prefix_B[:, None] - 1
        targets_BT = torch.from_numpy(batch.targets).masked_fill(inside_BT, IGNORED)
        return Examples(given.tokens, targets_BT, given.documents, given.rows, prefix=prefix_B)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, prefix=torch.ones(shape.batch, dtype=torch.int64))

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {"documents": examples.documents, "prefix": examples.prefix}
