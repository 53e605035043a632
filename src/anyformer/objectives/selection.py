"""Which tokens of a row are hidden: single ones, whole words, or spans; drawn from counters, so that a row's are always the
same."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from anyformer.parts.call.noise import Noise, uniform
from anyformer.text import Tokenizer
from anyformer.text.pieces import pieces

Unit = Literal["tokens", "words", "spans"]
LONGEST = 10
"""Tokens of the longest span (SpanBERT)."""


def chosen(
    tokens_BT: Tensor, free_BT: Tensor, unit: Unit, rate: float, mean: float, noise: Noise, tokenizer: Tokenizer
) -> Tensor:
    """(B, T) bool: the hidden tokens, about a share `rate` of the `free_BT` ones, none of the others.

    `mean`: 1 / p of the geometric lengths of spans, before they are cut at `LONGEST`.
    """
    drawn_BT = uniform(noise, 0, tokens_BT.shape)
    match unit:
        case "tokens":
            return free_BT & (drawn_BT < rate)
        case "words":
            starts_BT = word_starts(tokens_BT, tokenizer) | ~free_BT
            # Every token has the draw of its word's first token.
            first_BT = torch.where(starts_BT, torch.arange(tokens_BT.shape[1]), 0).cummax(1).values
            return free_BT & (drawn_BT.gather(1, first_BT) < rate)
        case "spans":
            return free_BT & spans(drawn_BT, uniform(noise, 3, tokens_BT.shape), rate, mean)


def exactly(free_BT: Tensor, counts_B: Tensor, draws_BT: Tensor) -> Tensor:
    """(B, T) bool: `counts_B` of the `free_BT` tokens of each row, those with the smallest draws."""
    ranks_BT = torch.where(free_BT, draws_BT, 2.0).argsort(dim=1, stable=True).argsort(dim=1)
    return free_BT & (ranks_BT < counts_B[:, None])


def spans(begins_BT: Tensor, lengths_BT: Tensor, rate: float, mean: float) -> Tensor:
    """(B, T) bool: the union of spans from two draws in (0, 1): where a span begins, and how long it is.

    Lengths are geometric with this mean, then cut at `LONGEST`. Spans begin at every place with the probability that leaves a
    token outside all of them with 1 - `rate`, the first tokens of a row apart.
    """
    stop = 1 / mean
    # Length n has probability stop * (1 - stop)^(n - 1); the mean of what is left by the cut decides how often spans begin.
    length_BT = (
        torch.ones_like(lengths_BT, dtype=torch.int64)
        if stop >= 1
        else (1 + (lengths_BT.log() / math.log1p(-stop)).floor()).clamp(max=LONGEST).long()
    )
    reach = [(1 - stop) ** (n - 1) for n in range(1, LONGEST + 1)]
    low, high = 0.0, 1.0
    for _ in range(60):  # 1 - rate = prod_n (1 - p P(length >= n)), solved for p by bisection
        p = (low + high) / 2
        low, high = (p, high) if math.prod(1 - p * share for share in reach) > 1 - rate else (low, p)
    end_BT = torch.where(begins_BT < (low + high) / 2, torch.arange(begins_BT.shape[1]) + length_BT, 0).cummax(1).values
    return torch.arange(begins_BT.shape[1]) < end_BT


def word_starts(tokens_BT: Tensor, tokenizer: Tokenizer) -> Tensor:
    """(B, T) bool: the tokens that do not go on with the word of the token before: both sides of the border are letters."""
    opens_V, closes_V = letters(tokenizer)
    goes_on = opens_V[tokens_BT[:, 1:]] & closes_V[tokens_BT[:, :-1]]
    return torch.cat([torch.ones_like(tokens_BT[:, :1], dtype=torch.bool), ~goes_on], 1)


@lru_cache(maxsize=4)
def letters(tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """(V,) bool each: whether a token begins with a letter or digit that may go on with a word, and whether it ends with
    one."""
    texts = pieces(tokenizer)
    return (
        torch.tensor([text[:1].isalnum() for text in texts]),
        torch.tensor([text[-1:].isalnum() for text in texts]),
    )


@lru_cache(maxsize=4)
def ordinary_tokens(tokenizer: Tokenizer) -> Tensor:
    """(V,) bool: all but the special tokens."""
    ordinary = torch.ones(tokenizer.vocab_size, dtype=torch.bool)
    ordinary[list(tokenizer.special_tokens.values())] = False
    return ordinary
