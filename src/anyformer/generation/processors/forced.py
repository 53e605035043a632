"""Tokens that must be chosen first or last."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import NEVER, Processor, among, where_rows


class ForcedFirst(Processor):
    """The token behind a text of one token, such as a target's start (transformers' ForcedBOSTokenLogitsProcessor)."""

    token: Annotated[int, Field(ge=0)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return _forced(scores_BV, [length == 1 for length in texts.lengths], (self.token,))


class ForcedLast(Processor):
    """The token at the greatest length of a text (transformers' ForcedEOSTokenLogitsProcessor)."""

    tokens: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return _forced(scores_BV, [made == texts.most - 1 for made in texts.made], self.tokens)


def _forced(scores_BV: Tensor, rows: list[bool], tokens: tuple[int, ...]) -> Tensor:
    if not any(rows):
        return scores_BV
    certain = torch.zeros_like(scores_BV).masked_fill(~among(tokens, scores_BV), NEVER)
    return torch.where(where_rows(rows, scores_BV), certain, scores_BV)
