"""UL2: a mixture of denoisers, from short spans to the rest of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, assert_never, get_args

import torch
from pydantic import Field
from torch import Tensor

from anyformer.data import IGNORED, Batch, Data
from anyformer.describe import Positive, Value
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits, SampleSizes, nothing
from anyformer.objectives.corruption import Spans, Texts, corrupted, sizes, span_mask, spans_of
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.source_target import moved_left, padded_pairs, pair_inputs, pairs, resized_to, sides_of
from anyformer.objectives.text import TextObjective, WindowBatch, lengths_of
from anyformer.objectives.token_loss import TokenObjective
from anyformer.objectives.whole_rows import needs_whole_rows
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform
from anyformer.requirements.needs import (
    needs_hidden_targets,
    needs_one_sequence,
    needs_prefix,
    needs_source,
    needs_token_logits,
)
from anyformer.text import RoleName, Specials, Tokenizer
from anyformer.text.sides import Sides

Mode = Literal["regular", "sequential", "extreme"]
MODES: tuple[RoleName, ...] = get_args(Mode)


class Denoiser(Value):
    """Span corruption of one rate and mean, announced to the model by a mode token."""

    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that are left out."""
    span: Annotated[float, Field(ge=1)] | None = None
    """Mean length of a span in tokens; None: one span, the last tokens of the row."""
    share: Positive = 1.0
    """How often it is drawn, relative to the others."""
    mode: Mode | None = None
    """The token in front of the source: `[R]`, `[S]` or `[X]`; None: there is none."""

    def spans(self, tokens: int) -> Spans:
        """Noise tokens and spans of a text of `tokens` tokens."""
        return spans_of(tokens, self.rate, self.span)

    def sizes(self, tokens: int) -> tuple[int, int]:
        """Tokens of the source and of the target made of a text of `tokens` tokens."""
        source, target = sizes(tokens, self.spans(tokens))
        return source + (self.mode is not None), target


PAPER = (
    Denoiser(rate=0.15, span=3.0, mode="regular"),
    Denoiser(rate=0.15, span=8.0, mode="regular"),
    Denoiser(rate=0.25, mode="sequential"),
    Denoiser(rate=0.5, span=3.0, mode="extreme"),
    Denoiser(rate=0.5, span=8.0, mode="extreme"),
    Denoiser(rate=0.15, span=64.0, mode="extreme"),
    Denoiser(rate=0.5, span=64.0, mode="extreme"),
)
"""Table 1 of the paper: R-, S- and X-denoisers, in equal shares."""


class UL2Objective(TextObjective, TokenObjective):
    """Span corruption by a denoiser drawn for each row: -sum_i log p(y_i | x, y_1 ... y_{i-1}).

    x is a mode token and the text without its noise, y the noise, both as in `span_corruption` (Tay et al. 2022,
    arXiv 2205.05131, section 3). All rows are made of texts of one length; what they lack in source or target is padding.
    """

    kind: Literal["ul2"] = "ul2"
    denoisers: Annotated[tuple[Denoiser, ...], Field(min_length=1)] = PAPER
    """The mixture."""
    target: Literal["decoder", "same_sequence"] = "decoder"
    """Where the model reads the target: in its decoder, or in one sequence behind the source, which is a prefix."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that reads no source, or with `same_sequence` none as a prefix."""
        match self.target:
            case "decoder":
                needs_source("ul2", architecture)
            case "same_sequence":
                needs_one_sequence("ul2", architecture)
                needs_prefix("ul2", architecture)
            case _ as never:
                assert_never(never)
        needs_token_logits("ul2", architecture)
        needs_hidden_targets("ul2", architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        needs_whole_rows("ul2", data)

    @property
    def traits(self) -> LossTraits:
        # No prompt: a prompt of text has no sentinel to answer to.
        return replace(super().traits, prompt=nothing)

    @property
    def sizes(self) -> SampleSizes:
        return replace(
            super().sizes, source_target=self._source_target if self.target == "decoder" else None, check=self._check_sizes
        )

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if self.window(length) < 2:
            least = next(enough for enough in range(1, 16) if self.window(enough) >= 2)
            raise ValueError(
                f"length = {length} has no room for a mode, a token, a sentinel and the end: at least {least} are needed"
            )

    def window(self, length: int) -> int:
        """The longest text that fits into `length` positions by every denoiser; 0 if there is none."""
        return max((tokens for tokens in range(2, 2 * length) if self._fits(tokens, length)), default=0)

    def beyond(self, tokenizer: Tokenizer) -> int:
        frame = Sides.of_running_text(tokenizer)
        return frame.beyond if self.target == "decoder" else sum(frame.sizes((0, 0)))

    def special(self, length: int) -> Specials:
        used = {each.mode for each in self.denoisers}
        roles = tuple(mode for mode in MODES if mode in used)
        return Specials(rows=True, roles=roles, sentinels=self._most_spans(self.window(length)))

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, tokenizer = WindowBatch.of(batch), setting.tokenizer
        lengths_B, drawn = lengths_of(given), self.drawn(given.rows, setting.seed)
        noise = Noise.at(setting.seed, 0, given.rows)
        counts = [each.spans(tokens) for each, tokens in zip(drawn, lengths_B.tolist(), strict=True)]
        noise_BT = span_mask(lengths_B, counts, *(uniform(noise, site, given.tokens.shape) for site in (0, 1)))
        sentinels = tokenizer.sentinels(self._most_spans(given.tokens.shape[1]))
        texts, frame = corrupted(given.tokens, lengths_B, noise_BT, sentinels), Sides.of_running_text(tokenizer)
        modes = torch.tensor([[-1 if each.mode is None else tokenizer.special(each.mode)] for each in drawn])
        whole = Texts(*sides_of((torch.cat([modes, texts.source], 1), texts.target), frame))
        match self.target:
            case "decoder":
                longest = frame.sizes(self._longest(given.tokens.shape[1]))
                source, target = (resized_to(text, size) for text, size in zip(whole, longest, strict=True))
                return pairs(source, target, given.rows, frame.start)
            case "same_sequence":
                return in_one_sequence(whole, given.rows, setting.length)
            case _ as never:
                assert_never(never)

    def _source_target(self, length: int) -> tuple[int, int]:
        """The tokens of the longest source and of the longest target in rows of `length` positions."""
        return self._longest(self.window(length))

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        if self.target == "decoder":
            return padded_pairs(made)
        padding = torch.zeros(made.targets.shape, dtype=torch.bool)
        return replace(made, padding=padding, prefix=torch.ones(shape.batch, dtype=torch.int64))

    def drawn(self, rows: Tensor, seed: int) -> list[Denoiser]:
        """The denoiser of each row."""
        shares = torch.tensor([each.share for each in self.denoisers], dtype=torch.float64).cumsum(0)
        point_B = uniform(Noise.at(seed, 0, rows), 2, torch.Size((len(rows), 1)))[:, 0] * shares[-1]
        return [self.denoisers[place] for place in torch.searchsorted(shares, point_B.double(), right=True).tolist()]

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        if self.target == "decoder":
            return pair_inputs(examples)
        return {"padding": examples.padding, "prefix": examples.prefix}

    def counted(self, examples: Examples) -> Tensor | None:
        padding = examples.padding if examples.decoder_padding is None else examples.decoder_padding
        return None if padding is None else ~padding

    def _longest(self, tokens: int) -> tuple[int, int]:
        """The tokens of the longest source and of the longest target of a text of `tokens` tokens."""
        source, target = zip(*(each.sizes(tokens) for each in self.denoisers), strict=True)
        return max(source), max(target)

    def _most_spans(self, tokens: int) -> int:
        """Spans of a text of `tokens` tokens by the denoiser that makes most."""
        return max(each.spans(tokens).spans for each in self.denoisers)

    def _fits(self, tokens: int, length: int) -> bool:
        """Whether a text of `tokens` tokens fits into `length` positions by every denoiser."""
        found = (each.sizes(tokens) for each in self.denoisers)
        # In one sequence the last token is only a target.
        return all((max(both) if self.target == "decoder" else sum(both) - 1) <= length for both in found)


def in_one_sequence(texts: Texts, rows: Tensor, length: int) -> Examples:
    """Sources, each with its target behind it: the model reads all but the last token, and predicts the target's tokens."""
    prefix_B = (texts.source >= 0).sum(1)
    whole = resized_to(moved_left(torch.cat(texts, 1)), length + 1)
    tokens_BT, targets_BT = whole[:, :-1], whole[:, 1:]
    inside_BT = torch.arange(length) < prefix_B[:, None] - 1
    wanted_BT = torch.where(inside_BT | (targets_BT < 0), IGNORED, targets_BT)
    return Examples(tokens_BT.clamp(min=0), wanted_BT, None, rows, padding=tokens_BT < 0, prefix=prefix_B)
