"""Span corruption: the spans that are left out of a text, from the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from anyformer.data import Batch
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.corruption import Spans, corrupted, sizes, span_mask, spans_of
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting
from anyformer.objectives.source_target import pairs, resized_to, sides_of
from anyformer.objectives.text import WindowBatch, lengths_of
from anyformer.objectives.text_to_text import TextToText
from anyformer.parts.call.noise import Noise, uniform
from anyformer.text import Specials
from anyformer.text.sides import Sides


class SpanCorruptionObjective(TextToText):
    """Cross-entropy of the spans left out of a text, given the rest: -sum_i log p(y_i | x, y_1 ... y_{i-1}).

    x is the text with sentinel n for its n-th span of noise, y all spans, each behind its sentinel; both framed as the
    tokenizer does it, with the token that ends a text at their ends. The numbers of noise tokens and of spans follow from the
    length of the text, so that all sources have one length, and all targets too (Raffel et al. 2020, arXiv 1910.10683, section
    3.1.4, and its released code, in which a text ends with noise, so that the target has no sentinel behind its last span).
    """

    kind: Literal["span_corruption"] = "span_corruption"
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that are left out."""
    span: Annotated[float, Field(ge=1)] = 3.0
    """Mean length of a span in tokens."""

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, source_target=self._source_target, check=self._check_sizes)

    def _check_sizes(self, length: int, batch: int, accumulation: int) -> None:
        if self.window(length) < 2:
            raise ValueError(f"length = {length} has no room for a token, a sentinel and the end: at least 3 are needed")

    def window(self, length: int) -> int:
        """The longest text whose source and target both fit into `length` positions; 0 if there is none."""
        fitting = 0
        for tokens in range(2, 2 * length):
            if max(sizes(tokens, self.spans(tokens))) <= length:
                fitting = tokens
        return fitting

    def special(self, length: int) -> Specials:
        return Specials(rows=True, sentinels=self.spans(self.window(length)).spans)

    def spans(self, tokens: int) -> Spans:
        """Noise tokens and spans of a text of `tokens` tokens."""
        return spans_of(tokens, self.rate, self.span)

    def examples(self, batch: Batch, setting: Setting) -> Examples:
        given, tokenizer = WindowBatch.of(batch), setting.tokenizer
        lengths_B, window = lengths_of(given), given.tokens.shape[1]
        noise = Noise.at(setting.seed, 0, given.rows)
        draws = (uniform(noise, site, given.tokens.shape) for site in range(2))
        noise_BT = span_mask(lengths_B, [self.spans(tokens) for tokens in lengths_B.tolist()], *draws)
        fixed = self.spans(window)
        sentinels = tokenizer.sentinels(fixed.spans)
        frame = Sides.of_running_text(tokenizer)
        texts = sides_of(corrupted(given.tokens, lengths_B, noise_BT, sentinels), frame)
        source, target = (resized_to(text, size) for text, size in zip(texts, frame.sizes(sizes(window, fixed)), strict=True))
        examples = pairs(source, target, given.rows, frame.start)
        # Rows of whole windows have no padding; said so, they take the faster kernels.
        return replace(examples, padding=None, decoder_padding=None) if given.padding is None else examples

    def _source_target(self, length: int) -> tuple[int, int]:
        """The tokens of the source and of the target in rows of `length` positions."""
        window = self.window(length)
        return sizes(window, self.spans(window))
