"""T5's spans: how many tokens of a text are noise, in how many spans, where, and the source and target made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from anyformer.objectives.source_target import NOTHING, moved_left


class Spans(NamedTuple):
    """`noise` tokens in `spans` spans."""

    noise: int
    spans: int


class Texts(NamedTuple):
    """What is made of a text: tokens of the `source` and of the `target`, `NOTHING` where there is none."""

    source: Tensor
    target: Tensor


def spans_of(length: int, rate: float, mean: float | None) -> Spans:
    """The fixed counts of a text of `length` tokens: round(rate T) noise tokens in round(noise / mean) spans, and at least one.

    `mean` None: one span. At least one token is no noise; a text of a single token counts as one of two.
    """
    length = max(length, 2)
    noise = min(max(round(length * rate), 1), length - 1)
    spans = 1 if mean is None else max(round(noise / mean), 1)
    # Every span stands behind a token that is no noise.
    return Spans(noise, min(spans, length - noise, noise))


def sizes(length: int, spans: Spans) -> tuple[int, int]:
    """Tokens of source and target: what is kept, or the noise, with a sentinel per span and the end."""
    return length - spans.noise + spans.spans + 1, spans.noise + spans.spans + 1


def span_mask(lengths_B: Tensor, spans: Sequence[Spans], cuts_BT: Tensor, noise_cuts_BT: Tensor) -> Tensor:
    """(B, T) bool: the noise, from two draws in (0, 1). All masks of these counts that begin with no noise are equally likely.

    Tokens that are no noise are cut at random into as many non-empty segments as there are spans, and noise likewise; then one
    follows the other in turn (arXiv 1910.10683, section 3.1.4). `lengths_B` (B,): the tokens of each row.
    """
    noise_B, spans_B = (torch.tensor(numbers) for numbers in zip(*spans, strict=True))
    kept = segments(lengths_B.clamp(min=2) - noise_B, spans_B, cuts_BT)
    hidden = segments(noise_B, spans_B, noise_cuts_BT)
    borders = torch.stack([kept, hidden], -1).flatten(1).cumsum(1)
    places_BT = torch.arange(cuts_BT.shape[1]).expand_as(cuts_BT).contiguous()
    inside_BT = places_BT < lengths_B[:, None]
    return inside_BT & (torch.searchsorted(borders, places_BT, right=True) % 2 == 1)


def segments(items_B: Tensor, counts_B: Tensor, draws_BT: Tensor) -> Tensor:
    """(B, most): the sizes of `counts_B` segments, none empty, into which a row of `items_B` items is cut; 0 beyond them."""
    places_T = torch.arange(draws_BT.shape[1])
    # An item begins a segment if its draw is among the smallest; the first one always does.
    follows_BT = (places_T > 0) & (places_T < items_B[:, None])
    ranks_BT = torch.where(follows_BT, draws_BT, 2.0).argsort(dim=1, stable=True).argsort(dim=1)
    begins_BT = follows_BT & (ranks_BT < counts_B[:, None] - 1)
    inside_BT = places_T < items_B[:, None]
    found = torch.zeros(len(items_B), int(counts_B.max()), dtype=torch.int64)
    return found.scatter_add(1, begins_BT.cumsum(1), inside_BT.long())


def corrupted(tokens_BT: Tensor, lengths_B: Tensor, noise_BT: Tensor, sentinels: Sequence[int]) -> Texts:
    """(B, T) each: the text with a sentinel per span of noise, and the noise with one per span that is none.

    The n-th span of either kind is written as sentinel n, so that the target is: sentinel 0, first span, sentinel 1, second
    span ...
    """
    inside_BT = torch.arange(tokens_BT.shape[1]) < lengths_B[:, None]
    source = _with_sentinels(tokens_BT, inside_BT, noise_BT, sentinels)
    target = _with_sentinels(tokens_BT, inside_BT, inside_BT & ~noise_BT, sentinels)
    return Texts(moved_left(source), moved_left(target))


def _with_sentinels(tokens_BT: Tensor, inside_BT: Tensor, hidden_BT: Tensor, sentinels: Sequence[int]) -> Tensor:
    """(B, T): each run of `hidden_BT` tokens as one sentinel, at its first token."""
    before_BT = torch.cat([torch.zeros_like(hidden_BT[:, :1]), hidden_BT[:, :-1]], 1)
    first_BT = hidden_BT & ~before_BT
    numbers_BT = torch.tensor(sentinels)[(first_BT.cumsum(1) - 1).clamp(min=0)]
    shown_BT = torch.where(first_BT, numbers_BT, tokens_BT)
    return torch.where(inside_BT & (first_BT | ~hidden_BT), shown_BT, NOTHING)
