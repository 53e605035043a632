"""Denoising: a whole text from its corruption."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from anyformer.data import Batch, Data
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting
from anyformer.objectives.sentences import sentences_of
from anyformer.objectives.source_target import NOTHING, padded_pairs, pairs, sides_of
from anyformer.objectives.text import WindowBatch, lengths_of
from anyformer.objectives.text_to_text import TextToText
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.text import Specials, Tokenizer
from anyformer.text.sides import Sides


class DenoisingObjective(TextToText):
    """Cross-entropy of a text given its corruption: -sum_i log p(x_i | corrupt(x), x_1 ... x_{i-1}).

    The sentences are put in another order, then some tokens are hidden (Lewis et al. 2019, arXiv 1910.13461, section 2.2).
    Unlike its released code, spans are of tokens and not of whole words, and none runs into another.
    """

    kind: Literal["denoising"] = "denoising"
    rate: Annotated[float, Field(ge=0, lt=1)] = 0.3
    """Share of the tokens that are hidden."""
    hiding: Literal["infilling", "masking", "deletion"] = "infilling"
    """`infilling`: a span becomes one mask token, and empty spans are put in; `masking`: every token becomes a mask token;
    `deletion`: tokens are left out."""
    span: Annotated[float, Field(ge=1)] = 3.0
    """Mean length of a span in tokens, with `infilling`; lengths have a Poisson distribution."""
    permuted: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the rows whose sentences are put in another order."""

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, check=self._check_sizes)

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if length < 2:
            raise ValueError(f"length = {length} has no room for a token and the end: at least 2 are needed")

    def window(self, length: int) -> int:
        return length - 1

    def special(self, length: int) -> Specials:
        return Specials(rows=True, roles=() if self.hiding == "deletion" else ("mask",))

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, tokenizer = WindowBatch.of(batch), setting.tokenizer
        lengths, noise, shape = lengths_of(given).tolist(), Noise.at(setting.seed, 0, given.rows), given.tokens.shape
        order, hidden, spans = (uniform(noise, site, shape).numpy() for site in range(3))
        whether = uniform(noise, 3, torch.Size((len(lengths), 1))).numpy()[:, 0]
        sentences = sentences_of(tokenizer)
        source, target = (np.full(shape, NOTHING) for _ in range(2))
        for row, length in enumerate(lengths):
            text = batch.tokens[row, :length]
            changed = sentences.reordered(text, order[row]) if whether[row] < self.permuted else text
            found = self.hide(changed, InfillingDraws(hidden[row], spans[row]), tokenizer)
            source[row, : len(found)], target[row, :length] = found, text
        frame = Sides.of_running_text(tokenizer)
        return pairs(*sides_of((torch.from_numpy(source), torch.from_numpy(target)), frame), given.rows, frame.start)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        return padded_pairs(super().made_up(architecture, data, shape))

    def hide(self, text: Ints, draws: InfillingDraws, tokenizer: Tokenizer) -> Ints:
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


Floats = NDArray[np.float32]


class InfillingDraws(NamedTuple):
    """Numbers in (0, 1), (T,) each: which places are hidden, and how long spans are."""

    places: Floats
    lengths: Floats


def infilled(text: Ints, rate: float, mean: float, mask: int, draws: InfillingDraws) -> Ints:
    """`text` with round(rate T) tokens in spans, each of which is one `mask`; no longer than `text`.

    Lengths are drawn from a Poisson distribution until they hold all these tokens, the last one cut; there are at most as many
    spans as hidden tokens. Kept tokens and spans stand in an order drawn evenly from all: no span runs into another, and empty
    spans stand anywhere.
    """
    hidden = round(rate * len(text))
    if hidden == 0:
        return text
    lengths = np.searchsorted(poisson(mean), draws.lengths[:hidden], side="left")
    count = min(int(np.searchsorted(np.cumsum(lengths), hidden)) + 1, hidden)
    lengths = lengths[:count]
    lengths[-1] = hidden - lengths[:-1].sum()
    items = len(text) - hidden + count
    span = np.zeros(items, dtype=bool)
    span[np.argsort(draws.places[:items], kind="stable")[:count]] = True
    taken = np.ones(items, dtype=np.int64)
    taken[span] = lengths
    starts = np.minimum(np.cumsum(taken) - taken, len(text) - 1)
    return np.where(span, mask, text[starts])


@lru_cache(maxsize=8)
def poisson(mean: float) -> NDArray[np.float64]:
    """P(length <= n) for n = 0, 1 ... up to where nothing is left to draw from 24 bits."""
    total = term = np.exp(-mean)
    shares = [total]
    while total < 1 - 2.0**-26:
        term *= mean / len(shares)
        total += term
        shares.append(total)
    return np.array(shares)
