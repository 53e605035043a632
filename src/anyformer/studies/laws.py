"""A law of loss and compute, L(C) = E + A / C^a, fitted to each arm, and where the laws of two arms cross. numpy alone.

The form is that of Kaplan et al. 2020 (arXiv 2001.08361) with the constant of Hoffmann et al. 2022 (arXiv 2203.15556).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyformer.evaluation.intervals import Interval

Floats = NDArray[np.float64]
EXPONENTS = np.geomspace(0.01, 3.0, 200)
"""Values of a that are tried; then so many between the neighbours of the best one, twice."""
FINER = 21
DRAWS = 400
"""Draws of the bootstrap."""
POINTS = 400
"""Places at which two laws are compared."""


@dataclass(frozen=True)
class ComputeLaw:
    """L(C) = floor + scale (C / unit)^-exponent, C in FLOPs."""

    floor: float
    scale: float
    exponent: float
    unit: float

    def at(self, flops: Floats) -> Floats:
        """The loss at some numbers of FLOPs."""
        result: Floats = self.floor + self.scale * (flops / self.unit) ** -self.exponent
        return result


def fit(flops: Sequence[float], losses: Sequence[float]) -> ComputeLaw:
    """The law with the least squares of differences from the losses, with E and A of at least 0; at least three points."""
    return fits(flops, np.asarray(losses, dtype=np.float64)[None])[0]


def fits(flops: Sequence[float], losses: Floats) -> list[ComputeLaw]:
    """The law of each row of losses (n, points).

    At every a, E and A are those of linear least squares, so that a alone is searched for: by steps, then by finer ones.
    """
    x = np.asarray(flops, dtype=np.float64)
    assert len(x) > 2, "three unknowns"
    unit = float(np.exp(np.log(x).mean()))
    rows = np.arange(len(losses))
    tried = np.broadcast_to(EXPONENTS, (len(losses), len(EXPONENTS)))
    for _ in range(3):
        floor, scale, left = _linear((x / unit) ** -tried[..., None], losses[:, None, :])
        best = left.argmin(1)
        found = [each[rows, best] for each in (floor, scale, tried)]
        low, high = tried[rows, np.maximum(best - 1, 0)], tried[rows, np.minimum(best + 1, tried.shape[1] - 1)]
        tried = np.linspace(low, high, FINER, axis=1)
    return [ComputeLaw(float(E), float(A), float(a), unit) for E, A, a in zip(*found, strict=True)]


def _linear(power: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """E, A and the sum of squares of y = E + A power over the last dimension, both at least 0."""
    spread = power - power.mean(-1, keepdims=True)
    away = y - y.mean(-1, keepdims=True)
    scale = np.maximum(0.0, (spread * away).sum(-1) / np.maximum((spread**2).sum(-1), 1e-300))
    floor = y.mean(-1) - scale * power.mean(-1)
    through = np.maximum(0.0, (power * y).sum(-1) / (power**2).sum(-1))  # with E = 0
    scale, floor = np.where(floor < 0, through, scale), np.maximum(floor, 0.0)
    left = ((y - floor[..., None] - scale[..., None] * power) ** 2).sum(-1)
    return floor, scale, left


@dataclass(frozen=True)
class LawCrossing:
    """Where the law of an arm crosses that of the base: FLOPs with the interval of those draws that cross, None where the laws
    of the means do not; `share`: of the draws that cross.

    `beyond`: whether it lies above the largest FLOPs that were measured; `first`: whether the arm is the better one below it.
    """

    at: Interval | None
    share: float
    beyond: bool
    first: bool


def crossing(one: ComputeLaw, other: ComputeLaw, low: float, high: float) -> float | None:
    """The least C between `low` and `high` at which one law goes from below the other to above it, or back."""
    x = np.geomspace(low, high, POINTS)
    gap = one.at(x) - other.at(x)
    turns = np.flatnonzero(np.sign(gap[1:]) * np.sign(gap[:-1]) < 0)
    if not len(turns):
        return None
    at = int(turns[0])
    share = gap[at] / (gap[at] - gap[at + 1])
    return float(x[at] * (x[at + 1] / x[at]) ** share)


def crossed(
    flops: tuple[Sequence[float], Sequence[float]],
    losses: tuple[Floats, Floats],
    *,
    beyond: float,
    alpha: float = 0.05,
    seed: int = 0,
) -> LawCrossing:
    """Where the law of an arm crosses that of the base, from the FLOPs (rungs,) and losses (seeds, rungs) of both.

    Rows of both are pairs, of the same seed, and stay together. The interval is that of a parametric bootstrap: `DRAWS` draws
    of the means of all rungs and both arms together, from Student's t of n - 1 degrees of freedom with the covariance of the
    means; resampling three to eight seeds would be too narrow. Of one seed there is none.
    """
    highest = max(max(each) for each in flops)
    low, high = max(min(each) for each in flops), beyond * highest
    means = [each.mean(0) for each in losses]
    laws = [fit(x, y) for x, y in zip(flops, means, strict=True)]
    point = crossing(laws[0], laws[1], low, high)
    first = float(laws[0].at(np.array([low]))[0]) < float(laws[1].at(np.array([low]))[0])
    drawn = _draws(losses, seed)
    pairs = zip(*(fits(x, rows) for x, rows in zip(flops, drawn, strict=True)), strict=True) if drawn else ()
    found = [place for one, other in pairs if (place := crossing(one, other, low, high)) is not None]
    share = len(found) / DRAWS if len(losses[0]) > 1 else math.nan
    if point is None:
        return LawCrossing(None, share, False, first)
    ends = (-math.inf, math.inf) if not found else tuple(np.quantile(found, [alpha / 2, 1 - alpha / 2]))
    return LawCrossing(Interval(point, float(ends[0]), float(ends[1])), share, point > highest, first)


def _draws(losses: tuple[Floats, Floats], seed: int) -> tuple[Floats, ...]:
    """Means of the rungs of both arms, each (draws, rungs), as they might have been with other seeds; nothing of one seed."""
    together = np.concatenate(losses, axis=1)
    n, rungs = len(together), losses[0].shape[1]
    if n < 2:
        return ()
    random = np.random.default_rng(seed)
    away = together - together.mean(0)
    drawn = random.standard_normal((DRAWS, n)) @ away / math.sqrt(n * (n - 1))
    drawn *= np.sqrt((n - 1) / random.chisquare(n - 1, DRAWS))[:, None]
    drawn += together.mean(0)
    return drawn[:, :rungs], drawn[:, rungs:]
