"""Prefixes that must not end too early, or should end soon."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import NEVER, Processor, among, where_rows


class MinLength(Processor):
    """No end before the prompt and what follows have so many tokens (transformers' MinLengthLogitsProcessor)."""

    tokens: Annotated[int, Field(ge=0)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return _no_end(scores_BV, texts, [length < self.tokens for length in texts.lengths])


class MinNewTokens(Processor):
    """No end before so many tokens were made (transformers' MinNewTokensLengthLogitsProcessor)."""

    tokens: Annotated[int, Field(ge=0)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return _no_end(scores_BV, texts, [made < self.tokens for made in texts.made])


class LengthDecay(Processor):
    """From `start` new tokens on, ends gain |score| (factor^n - 1), n tokens later (ExponentialDecayLengthPenalty)."""

    start: Annotated[int, Field(ge=0)]
    factor: float

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        beyond = [max(made - self.start, 0) for made in texts.made]
        if not any(beyond):
            return scores_BV
        growth = torch.tensor([pow(self.factor, count) - 1 for count in beyond], device=scores_BV.device)[:, None]
        gain = (scores_BV.abs() * growth).masked_fill(~scores_BV.isfinite() | ~among(texts.ends, scores_BV), 0.0)
        return scores_BV + gain


def _no_end(scores_BV: Tensor, texts: Prefixes, rows: list[bool]) -> Tensor:
    if not any(rows):
        return scores_BV
    return scores_BV.masked_fill(where_rows(rows, scores_BV) & among(texts.ends, scores_BV), NEVER)
