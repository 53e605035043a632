"""What the choice of a token takes long for: on the processor by numpy's kernels, several times as fast as torch's.

After a model has filled the caches, the first call of torch alone takes 40 microseconds, and one of numpy's takes 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


def likeliest(scores_BV: Tensor) -> tuple[Tensor, bool]:
    """The first of the greatest scores of each row, (B,), and whether all of these are finite; NaN is greater than all."""
    if scores_BV.is_cpu:
        tokens_B, finite = _likeliest(_viewed(scores_BV))
        return torch.from_numpy(tokens_B), finite
    values, tokens = scores_BV.max(-1)
    return tokens, bool(values.isfinite().all())


def likeliest_numbers(scores_BV: Tensor) -> tuple[list[int], bool]:
    """The same as plain numbers, on the processor without a call of torch for scores that it was given before."""
    if not scores_BV.is_cpu:
        tokens_B, finite = likeliest(scores_BV)
        return tokens_B.tolist(), finite
    found_B, finite = _likeliest(_viewed(scores_BV))
    numbers: list[int] = found_B.tolist()
    return numbers, finite


def _likeliest(scores: Array) -> tuple[Array, bool]:
    tokens = scores.argmax(-1)
    return tokens, all(map(isfinite, map(scores.item, range(len(tokens)), tokens.tolist())))


@lru_cache(maxsize=1)
def _viewed(scores: Tensor) -> Array:
    """The memory of a tensor as an array, made once of a tensor that holds other numbers every time, as an engine's does."""
    return scores.numpy()


def bounded(scores_BV: Tensor) -> bool:
    """Whether the greatest score of every row is a finite number; NaN is greater than all."""
    if not scores_BV.is_cpu:
        return bool(scores_BV.amax(-1).isfinite().all())
    return all(map(isfinite, _viewed(scores_BV).max(-1).tolist()))


def ascending(scores_BV: Tensor) -> Tensor:
    """The scores of each row in order, the least first."""
    if not scores_BV.is_cpu:
        return scores_BV.sort(-1).values
    return torch.from_numpy(np.sort(scores_BV.numpy(), -1))


def without_least(scores_BV: Tensor, ordered_BV: Tensor, counts_B1: Tensor, never: float) -> Tensor:
    """Scores of which the least `counts` of each row become `never`, of equal ones the first; `ordered`: they in order."""
    least = ordered_BV.gather(-1, counts_B1)
    below = scores_BV < least
    left = counts_B1 - below.sum(-1, keepdim=True)
    if not scores_BV.is_cpu or bool((left > 0).any()):  # elsewhere to ask takes longer than to do it
        equal = scores_BV == least
        below |= equal & (equal.cumsum(-1) <= left)
    return scores_BV.masked_fill(below, never)


def drawn(probability_BV: Tensor, uniform_B1: Tensor) -> Tensor:
    """The first token of each row up to which the probabilities, added up in fp64, exceed `uniform` of their sum: (B,)."""
    if not probability_BV.is_cpu or _rather_at_once(probability_BV):
        cumulative = probability_BV.double().cumsum(-1)
        # Scaled to the last sum, so that rounding cannot push the draw past the last token with a probability above 0.
        return (cumulative > uniform_B1 * cumulative[:, -1:]).int().argmax(-1)
    return torch.tensor(drawn_numbers(probability_BV, uniform_B1[:, 0].tolist()))


def drawn_numbers(probability_BV: Tensor, uniform: Sequence[float]) -> list[int]:
    """The same on the processor, of plain numbers as plain numbers."""
    return [_drawn(*each) for each in zip(probability_BV.unbind(), uniform, strict=True)]


MANY_ROWS, SHORT = 8, 2048
"""From so many rows on, of at most so many tokens each, one call for all is faster than a few calls for each: a group of
answers to a prompt in training, of a small vocabulary."""


def _rather_at_once(probability_BV: Tensor) -> bool:
    return len(probability_BV) >= MANY_ROWS and probability_BV.shape[-1] <= SHORT


FEW = 16
"""Tokens are passed over where all but one in so many have no probability."""


def _drawn(probability_V: Tensor, uniform: float) -> int:
    """The same of one row; tokens of probability 0 change no sum, so they may be passed over."""
    probability = probability_V.numpy()
    possible = probability > 0
    if FEW * np.count_nonzero(possible) > len(possible):
        sums = probability_V.cumsum(-1, dtype=torch.float64).numpy()
        return int(sums.searchsorted(uniform * sums[-1], side="right"))
    (tokens,) = possible.nonzero()
    sums = np.cumsum(probability[tokens], dtype=np.float64)
    return int(tokens[sums.searchsorted(uniform * sums[-1], side="right")])
