"""Denoising: a whole text from its corruption."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, assert_never

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED, Batch, Data
from anyformer.data.packing import Ints
from anyformer.model import Architecture, Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes, nothing
from anyformer.objectives.examples import Examples
from anyformer.objectives.infilling import Draws, infilled
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.requirements import needs_hidden_targets, needs_source, needs_token_logits, needs_whole_rows
from anyformer.objectives.sentences import sentences_of
from anyformer.objectives.source_target import NOTHING, padded_pairs, pair_inputs, pairs, sides_of
from anyformer.objectives.text import TextObjective, Window, lengths_of
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.text import Specials, Tokenizer
from anyformer.text.sides import Sides


class DenoisingObjective(TextObjective, TokenObjective):
    """Cross-entropy of a text given its corruption: -sum_i log p(x_i | corrupt(x), x_1 ... x_{i-1}).

    The sentences are put in another order, then some tokens are hidden (Lewis et al. 2019, arXiv 1910.13461, section 2.2).
    Unlike its released code, spans are of tokens and not of whole words, and none runs into another.
    """

    kind: Literal["denoising"] = "denoising"
    rate: Annotated[float, Field(ge=0, lt=1)] = 0.3
    """Share of the tokens that are hidden."""
    hiding: Literal["infilling", "masking", "deletion"] = "infilling"
    """`infilling`: spans become one mask token each, and empty ones are put in; `masking`: each token becomes a mask token;
    `deletion`: tokens are left out."""
    span: Annotated[float, Field(ge=1)] = 3.0
    """Mean length of a span in tokens, with `infilling`; lengths have a Poisson distribution."""
    permuted: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the rows whose sentences are put in another order."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture without a source of text."""
        needs_source("denoising", architecture)
        needs_token_logits("denoising", architecture)
        needs_hidden_targets("denoising", architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        needs_whole_rows("denoising", data)

    @property
    def traits(self) -> LossTraits:
        # No prompt: a text without noise is its own answer.
        return replace(super().traits, two_inputs=True, prompt=nothing)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, check=self._check_sizes)

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if length < 2:
            raise ValueError(f"length = {length} has no room for a token and the end: at least 2 are needed")

    def window(self, length: int) -> int:
        return length - 1

    def beyond(self, tokenizer: Tokenizer) -> int:
        return Sides.of_running_text(tokenizer).beyond

    def special(self, length: int) -> Specials:
        return Specials(rows=True, roles=() if self.hiding == "deletion" else ("mask",))

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, tokenizer = Window.of(batch), setting.tokenizer
        lengths, noise, shape = lengths_of(given).tolist(), Noise.at(setting.seed, 0, given.rows), given.tokens.shape
        order, hidden, spans = (uniform(noise, site, shape).numpy() for site in range(3))
        whether = uniform(noise, 3, torch.Size((len(lengths), 1))).numpy()[:, 0]
        sentences = sentences_of(tokenizer)
        source, target = (np.full(shape, NOTHING) for _ in range(2))
        for row, length in enumerate(lengths):
            text = batch.tokens[row, :length]
            changed = sentences.reordered(text, order[row]) if whether[row] < self.permuted else text
            found = self.hide(changed, Draws(hidden[row], spans[row]), tokenizer)
            source[row, : len(found)], target[row, :length] = found, text
        frame = Sides.of_running_text(tokenizer)
        return pairs(*sides_of((torch.from_numpy(source), torch.from_numpy(target)), frame), given.rows, frame.start)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        return padded_pairs(super().made_up(architecture, data, shape))

    def hide(self, text: Ints, draws: Draws, tokenizer: Tokenizer) -> Ints:
        """The text with a share of its tokens hidden."""
        hidden = draws.places[: len(text)] < self.rate
        match self.hiding:
            case "infilling":
                return infilled(text, self.rate, self.span, tokenizer.special("mask"), draws)
            case "masking":
                return np.where(hidden, tokenizer.special("mask"), text)
            case "deletion":
                return text[~hidden]
            case _ as never:
                assert_never(never)

    def counted(self, examples: Examples) -> Tensor | None:
        return examples.targets != IGNORED

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return pair_inputs(examples)
