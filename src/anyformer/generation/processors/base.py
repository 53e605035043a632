"""What changes the scores of the next token before one is chosen."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import ClassVar

import torch
from torch import Tensor

from anyformer.describe import UserError, Value
from anyformer.generation.prefixes import Prefixes

NEVER = float("-inf")
"""The score of a token that is never chosen."""


class NoChoiceError(UserError):
    """No token can be chosen."""

    exit_code = 1


class Processor(Value):
    """Changes the scores (B, V) of each row's next token, by what the row says so far; greedy choices and beams too.

    Each equals the class of transformers that its docstring names, for a row of a batch as for the row alone: what counts is
    the row's own text, without padding.
    """

    reads: ClassVar[bool] = True
    """Whether it depends on the text; texts need not be kept for those that do not."""
    draws: ClassVar[bool] = False
    """Whether it matters for tokens that are drawn alone."""

    @property
    def name(self) -> str:
        """What it is called in a sentence: `top-p`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__.removesuffix("Warper")).lower()

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        """The scores that take the place of `scores_BV`, which stay as they are."""
        raise NotImplementedError


class Warper(Processor):
    """Shapes the distribution that tokens are drawn from; a choice of the likeliest passes it over."""

    reads: ClassVar[bool] = False
    draws: ClassVar[bool] = True

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return self.warp(scores_BV, texts.keep)

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        """The scores that take the place of `scores_BV`; at least `keep` tokens of each row can still be drawn."""
        raise NotImplementedError


def seen(tokens_BT: Tensor, counted_BT: Tensor, vocabulary: int) -> Tensor:
    """How often each token of the vocabulary stands in every row, (B, V), where it is counted; others have no place."""
    at = tokens_BT.clamp(max=vocabulary).masked_fill(~counted_BT, vocabulary)
    counts = torch.zeros(len(tokens_BT), vocabulary + 1, dtype=torch.int64, device=tokens_BT.device)
    return counts.scatter_add_(1, at, torch.ones_like(at))[:, :vocabulary]


def among(tokens: Collection[int], scores_BV: Tensor) -> Tensor:
    """Which tokens of the vocabulary, (V,), are some of these; numbers without a place in it are passed over."""
    numbers = [token for token in tokens if 0 <= token < scores_BV.shape[-1]]
    found = torch.zeros(scores_BV.shape[-1], dtype=torch.bool, device=scores_BV.device)
    found[torch.tensor(numbers, dtype=torch.int64, device=scores_BV.device)] = True
    return found


def where_rows(rows: list[bool], scores_BV: Tensor) -> Tensor:
    """Rows as a mask (B, 1)."""
    return torch.tensor(rows, device=scores_BV.device)[:, None]
