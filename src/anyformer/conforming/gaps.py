"""Differences of two completions of one request, place by place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anyformer.conforming.request import Completion, TokenLogProbs

LOWEST = -1e4
"""Log-probabilities below count as this, for servers have a number of their own for that of what cannot be."""


@dataclass(frozen=True)
class PlaceGap:
    """The differences of log-probabilities at a place, in nats. `count`: how many were compared.

    `divergence`: the Kullback-Leibler divergence of the tokens that both show, all others taken as one, which that of all is
    no less than. `margin`: by how much the model takes its likeliest token for likelier than the next; `same`: whether it is
    the engine's likeliest too.
    """

    place: str
    largest: float
    total: float
    count: int
    divergence: float
    margin: float
    same: bool


@dataclass(frozen=True)
class Bound:
    """What rounding explains: the largest difference, and the mean one."""

    largest: float
    mean: float


def place_gaps(golden: Completion, answer: Completion) -> Iterator[PlaceGap]:
    """The gaps of the prompt where both have it, and of the tokens made up to the first that they do not agree in.

    An engine that takes another token than the model reads another text from there on. It may, where the two are as likely but
    for rounding; where they are not, the gap of that place says so.
    """
    if len(answer.prompt) == len(golden.prompt):
        for number, (token, shown) in enumerate(zip(golden.prompt, answer.prompt, strict=True), 2):
            yield _gap(f"token {number} of the prompt", token, shown)
    for number, (mine, other) in enumerate(zip(golden.made, answer.made, strict=False), 1):
        if mine is None or other is None:
            continue
        yield _gap(f"token {number} made", mine, other)
        if mine.token != other.token:
            return


def _gap(place: str, mine: TokenLogProbs, other: TokenLogProbs) -> PlaceGap:
    differences = list(_differences(mine, other))
    largest = math.inf if any(map(math.isnan, differences)) else max(differences)
    return PlaceGap(
        place,
        largest,
        math.inf if math.isinf(largest) else sum(differences),
        len(differences),
        _divergence(mine.top, other.top),
        mine.margin,
        mine.likeliest == other.likeliest,
    )


def _differences(mine: TokenLogProbs, other: TokenLogProbs) -> Iterator[float]:
    """Of tokens that both show their difference; of one that only one shows by how much it lies above the other's least."""
    ours, theirs = _all(mine), _all(other)
    least_ours, least_theirs = _least(mine), _least(other)
    for token in ours.keys() | theirs.keys():
        if token in ours and token in theirs:
            yield abs(ours[token] - theirs[token])
        elif token in ours:
            yield max(0.0, ours[token] - least_theirs)
        else:
            yield max(0.0, theirs[token] - least_ours)


def _least(place: TokenLogProbs) -> float:
    """The log-probability below which those that are not shown lie: a token that was chosen is shown however unlikely it is."""
    return max(min((value for token, value in place.top.items() if token != place.token), default=place.logprob), LOWEST)


def _all(place: TokenLogProbs) -> Mapping[int, float]:
    known = {**place.top, place.token: place.logprob}
    return {token: logprob if math.isnan(logprob) else max(logprob, LOWEST) for token, logprob in known.items()}


def _divergence(mine: Mapping[int, float], other: Mapping[int, float]) -> float:
    both = [(mine[token], other[token]) for token in mine.keys() & other.keys()]
    rest_mine, rest_other = (max(1 - sum(math.exp(pair[side]) for pair in both), 1e-12) for side in (0, 1))
    total = sum(math.exp(p) * (p - q) for p, q in both) + rest_mine * math.log(rest_mine / rest_other)
    return max(total, 0.0)


def summed(gaps: Sequence[PlaceGap]) -> Bound:
    """The largest and the mean difference of several places."""
    count = sum(gap.count for gap in gaps)
    return Bound(max((gap.largest for gap in gaps), default=0.0), sum(gap.total for gap in gaps) / max(count, 1))
