"""Masked language modelling."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator

from anyformer.data import IGNORED, Batch
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.framing import MASKED, USUAL, beyond_usual, framed
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.selection import chosen, ordinary_tokens
from anyformer.objectives.text import TextObjective, WindowBatch
from anyformer.objectives.token_loss import TokenObjective
from anyformer.parts.call.noise import Noise, uniform
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Specials, Tokenizer
from anyformer.text.row_frame import row_frame

Share = Annotated[float, Field(ge=0, le=1)]


class MaskedObjective(TextObjective, TokenObjective):
    """Cross-entropy of tokens that are hidden from the model: -sum_{i in M} log p(x_i | the row with M hidden).

    M holds a share of each row's tokens, drawn anew for each row; of them most become the mask token, some a random token, and
    the others stay (Devlin et al. 2019, arXiv 1810.04805; spans: Joshi et al. 2020, arXiv 1907.10529).
    """

    kind: Literal["masked"] = "masked"
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that are predicted; BERT 0.15, ModernBERT 0.3."""
    unit: Literal["tokens", "words", "spans"] = "tokens"
    """What is hidden together: single tokens, whole words, or spans of several tokens."""
    span: Annotated[float, Field(ge=1)] = 3.8
    """1 / p of the geometric lengths of spans in tokens, cut at 10, with `unit = "spans"`: 3.8 gives SpanBERT's p of about 0.26
    and spans of 3.6 tokens on average."""
    masked: Share = 0.8
    """Share of the predicted tokens that become the mask token."""
    random: Share = 0.1
    """Share of the predicted tokens that become a random token."""
    frame: bool = True
    """Put around each row what the tokenizer puts around a text, as `[CLS]` and `[SEP]`; false: around each document."""

    @model_validator(mode="after")
    def _shares(self) -> MaskedObjective:
        if self.masked + self.random > 1 + 1e-9:
            raise ValueError(
                f"masked = {self.masked:g} and random = {self.random:g} are shares of one whole: together at most 1"
            )
        return self

    def special(self, length: int) -> Specials:
        return MASKED if self.frame else Specials(roles=("mask",))

    def window(self, length: int) -> int:
        return length - USUAL if self.frame else length

    def beyond(self, tokenizer: Tokenizer) -> int:
        return beyond_usual(tokenizer) if self.frame else 0

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without logits of tokens, or in which no token sees later ones."""
        BY_KIND["masked"].check(architecture)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, check=self._check_sizes)

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if self.window(length) < 1:
            raise ValueError(f"length = {length} leaves no token between [CLS] and [SEP]: at least 3 are needed")

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        window, tokenizer = WindowBatch.of(batch), setting.tokenizer
        given = framed(window, row_frame(tokenizer).single) if self.frame else window
        ordinary_V = ordinary_tokens(tokenizer)
        noise = Noise.at(setting.seed, 0, given.rows)
        free_BT = ordinary_V[given.tokens]
        if given.padding is not None:
            free_BT = free_BT & ~given.padding
        predicted_BT = chosen(given.tokens, free_BT, self.unit, self.rate, self.span, noise, tokenizer)
        action_BT = uniform(noise, 1, given.tokens.shape)
        drawn_BT = (uniform(noise, 2, given.tokens.shape) * int(ordinary_V.sum())).long()
        tokens_BT = torch.where(predicted_BT & (action_BT < self.masked), tokenizer.special("mask"), given.tokens)
        replaced_BT = predicted_BT & (action_BT >= self.masked) & (action_BT < self.masked + self.random)
        tokens_BT = torch.where(replaced_BT, ordinary_V.nonzero()[:, 0][drawn_BT], tokens_BT)
        targets_BT = torch.where(predicted_BT, given.tokens, IGNORED)
        return Examples(tokens_BT, targets_BT, given.documents, given.rows, padding=given.padding)

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {"padding": examples.padding, "documents": examples.documents}
