"""Intervals: of a share, and of the difference of two models on the same units, by resampling these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95
RESAMPLES = 2000
FEWEST = 5
"""Units below which nothing can be told from resampling them."""
Verdict = Literal["better", "worse", "cannot tell"]
_AT_ONCE = 2**20
_Z = 1.959963984540054
"""The normal distribution's quantile of (1 + 0.95) / 2."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedDifference:
    """The first model minus the second one, over `units`; `lower`: whether less is better."""

    interval: Interval
    units: int
    unit: str
    lower: bool

    @property
    def verdict(self) -> Verdict:
        """What the interval says of the first model."""
        if self.units < FEWEST or self.interval.low <= 0 <= self.interval.high:
            return "cannot tell"
        return "better" if (self.interval.value < 0) == self.lower else "worse"


def share(right: float, count: float) -> Interval:
    """right / count, with Wilson's score interval, which holds for few and for extreme ones too.

    (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n) (Wilson 1927, doi 10.1080/01621459.1927.10502953).
    """
    if not count:
        return Interval(math.nan, 0.0, 1.0)
    p, z2 = right / count, _Z**2
    middle = p + z2 / (2 * count)
    reach = _Z * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    # At p = 0 and 1 an end is exactly 0 or 1, which rounding would miss.
    low = 0.0 if right == 0 else (middle - reach) / (1 + z2 / count)
    high = 1.0 if right == count else (middle + reach) / (1 + z2 / count)
    return Interval(p, low, high)


def paired(
    first: ArrayLike, second: ArrayLike, counts: ArrayLike, *, unit: str, lower: bool = True, seed: int = 0
) -> PairedDifference:
    """sum_i (first_i - second_i) / sum_i counts_i, with the percentiles of the same ratio over resampled units.

    Each unit (a document, a row, a question) is drawn with both of its sums, so that what makes it hard for both models
    cancels (Efron 1979, doi 10.1214/aos/1176344552; Koehn 2004, W04-3250). The draws are those of `seed`. Units without a
    target are left out.
    """
    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    weights = np.asarray(counts, dtype=np.float64)
    differences, weights = differences[weights > 0], weights[weights > 0]
    number, value = len(differences), float(differences.sum() / weights.sum())
    random = np.random.default_rng(seed)
    estimates: list[float] = []
    while len(estimates) < RESAMPLES:
        drawn = random.integers(number, size=(min(RESAMPLES - len(estimates), max(1, _AT_ONCE // number)), number))
        estimates += (differences[drawn].sum(1) / weights[drawn].sum(1)).tolist()
    low, high = np.quantile(estimates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return PairedDifference(Interval(value, float(low), float(high)), number, unit, lower)
