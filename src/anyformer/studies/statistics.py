"""Is one arm better than another? Small pure functions over paired numbers, one pair per seed.

Intervals are those of Student's t on the differences of pairs, not of a bootstrap: with three to eight seeds a percentile
bootstrap resamples too few numbers, and its 95 % interval holds the truth far less often than it says (Hesterberg 2015,
doi 10.1080/00031305.2015.1089789; `tests/studies/test_statistics.py` measures both). numpy alone; no torch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from anyformer.evaluation.intervals import Interval

FEWEST = 3
"""Pairs below which there is no verdict: the spread of two numbers says almost nothing."""
POWER = 0.8
"""The probability with which so many seeds as are advised would tell."""
MOST_SEEDS = 1000
"""Seeds above which no number is advised."""
Verdict = Literal["better", "worse", "cannot tell"]


def t_cdf(t: float, freedom: int) -> float:
    """P(T <= t) of Student's distribution with a whole number of degrees of freedom, by its finite sums.

    With a = atan(t / sqrt(n)): 1/2 + (sin a sum_j c_j cos^(2j) a) / 2 for even n, and 1/2 + (a + sin a sum_j c_j cos^(2j+1) a)
    / pi for odd n (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4).
    """
    angle = math.atan2(t, math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term, series = (cosine if odd else 1.0), 0.0
    for j in range(1, (freedom + 1) // 2 if odd else freedom // 2 + 1):
        series += term
        term *= cosine**2 * ((2 * j) / (2 * j + 1) if odd else (2 * j - 1) / (2 * j))
    whole = (angle + math.sin(angle) * series) * 2 / math.pi if odd else math.sin(angle) * series
    return 0.5 + whole / 2


@lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: int) -> float:
    """The t with P(T <= t) = share, by halving."""
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The mean of some numbers with its t interval, mean +- t s / sqrt(n); infinitely wide for one number."""
    numbers = np.asarray(values, dtype=np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return Interval(mean, -math.inf, math.inf)
    reach = t_quantile((1 + confidence) / 2, len(numbers) - 1) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(mean, mean - reach, mean + reach)


def p_value(differences: Sequence[float]) -> float:
    """The two-sided probability of so large a mean difference, or a larger one, where there is none.

    It is 2 P(T > |mean| sqrt(n) / s) of Student's distribution with n - 1 degrees of freedom.

    Differences that are all the same number have no spread, and Student's distribution nothing to say: then that of their
    signs, 2 (1/2)^n, or 1 where all are 0. 1 for fewer than `FEWEST`.
    """
    numbers = np.asarray(differences, dtype=np.float64)
    if len(numbers) < FEWEST:
        return 1.0
    mean, spread = float(numbers.mean()), float(numbers.std(ddof=1))
    if spread <= 1e-12 * abs(mean):
        return 2 * 0.5 ** len(numbers) if mean else 1.0
    return min(1.0, 2 * (1 - t_cdf(abs(mean) * math.sqrt(len(numbers)) / spread, len(numbers) - 1)))


def holm(probabilities: Mapping[str, float]) -> dict[str, float]:
    """Probabilities corrected for being several: reject those of at most alpha, and any false rejection has at most that
    probability. The k-th smallest of m is multiplied by m - k + 1, and is no less than those before it (Holm 1979)."""
    corrected: dict[str, float] = {}
    before = 0.0
    for rank, name in enumerate(sorted(probabilities, key=lambda name: probabilities[name])):
        before = max(before, min(1.0, (len(probabilities) - rank) * probabilities[name]))
        corrected[name] = before
    return {name: corrected[name] for name in probabilities}


def seeds_to_tell(differences: Sequence[float], alpha: float = 0.05) -> int | None:
    """Seeds with which a difference like the one seen would be told from none, with probability `POWER`: the least n with
    (t_(1 - alpha/2, n-1) + t_(POWER, n-1)) / sqrt(n) <= |mean| / s.

    A rough guide, since mean and spread are themselves estimated from few seeds. None where it is more than `MOST_SEEDS`.
    """
    numbers = np.asarray(differences, dtype=np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return None
    effect, spread = abs(float(numbers.mean())), float(numbers.std(ddof=1))
    return _seeds(effect, spread, alpha)


def seeds_to_bound(differences: Sequence[float], margin: float, alpha: float = 0.05) -> int | None:
    """Seeds with which a difference like the one seen would be told from one of `margin`, to either side: those of
    `seeds_to_tell` for what is left between, margin - |mean|. None where nothing is left, or it is more than `MOST_SEEDS`."""
    numbers = np.asarray(differences, dtype=np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return None
    return _seeds(margin - abs(float(numbers.mean())), float(numbers.std(ddof=1)), alpha)


def _seeds(effect: float, spread: float, alpha: float) -> int | None:
    if effect <= 0:
        return None

    def tells(n: int) -> bool:
        return (t_quantile(1 - alpha / 2, n - 1) + t_quantile(POWER, n - 1)) * spread <= effect * math.sqrt(n)

    n = bisect_left(range(MOST_SEEDS + 1), True, lo=FEWEST, key=tells)
    return n if n <= MOST_SEEDS else None


@lru_cache(maxsize=1024)
def divergence_p_value(first: int, second: int, count: int) -> float:
    """The two-sided probability that of `count` trials each so different numbers diverge, `first` and `second` of them, where
    both arms diverge equally often: the largest one over all rates (Barnard 1945, with the difference as the statistic).

    For all against none it is 2 / 4^count: 1/32 with three seeds.
    """
    if first == second:
        return 1.0
    rates = np.linspace(0, 1, 201)[1:-1, None]
    numbers = np.arange(count + 1)
    ways = np.array([math.comb(count, k) for k in numbers], dtype=np.float64)
    chances = ways * rates**numbers * (1 - rates) ** (count - numbers)
    far = np.abs(numbers[:, None] - numbers[None, :]) >= abs(first - second)
    return float(np.einsum("ri,rj,ij->r", chances, chances, far).max())


@dataclass(frozen=True)
class ArmComparison:
    """An arm against the base over seeds: pairs of which both have a number, and how many diverged of each.

    `interval`: of the mean difference, arm minus base, at 1 - alpha for this comparison alone; None without two pairs.
    `p`: as it is; `corrected`: for all comparisons of the study; `needed`: `seeds_to_tell`, None where no number is advised;
    `untrained`: which of the two did not train (`studies.trained`), so that there is no verdict.
    """

    name: str
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    diverged: tuple[int, int]
    interval: Interval | None
    p: float
    corrected: float
    verdict: Verdict
    needed: int | None
    why: str
    untrained: tuple[str, ...] = ()


def compare(
    base: Mapping[int, float], arms: Mapping[str, Mapping[int, float]], *, lower: bool = True, alpha: float = 0.05
) -> dict[str, ArmComparison]:
    """Every arm against the base, from the final number of each seed; infinite where the trial diverged.

    A verdict is "better" or "worse" where the probability, corrected for all arms by Holm, is at most `alpha`, so that where
    nothing differs any such verdict comes with at most that probability. If arms differ in how often they diverge, that is the
    difference; if some trials diverged and that tells nothing, there is no verdict, since the others are no fair sample.
    """
    plain = {name: _Plain.of(base, arm) for name, arm in arms.items()}
    corrected = holm({name: one.p for name, one in plain.items()})
    return {name: one.judged(name, corrected[name], len(arms), lower, alpha) for name, one in plain.items()}


@dataclass(frozen=True)
class _Plain:
    """A comparison before it is corrected for the others."""

    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    diverged: tuple[int, int]
    p: float
    by_divergence: bool

    @staticmethod
    def of(base: Mapping[int, float], arm: Mapping[int, float]) -> _Plain:
        both = [seed for seed in base if seed in arm]
        diverged = sum(not math.isfinite(arm[seed]) for seed in both), sum(not math.isfinite(base[seed]) for seed in both)
        seeds = tuple(seed for seed in both if math.isfinite(arm[seed]) and math.isfinite(base[seed]))
        differences = tuple(arm[seed] - base[seed] for seed in seeds)
        if any(diverged):
            p = divergence_p_value(*diverged, len(both)) if len(both) >= FEWEST else 1.0
            return _Plain(seeds, differences, diverged, p, True)
        return _Plain(seeds, differences, diverged, p_value(differences), False)

    def judged(self, name: str, corrected: float, arms: int, lower: bool, alpha: float) -> ArmComparison:
        count = len(self.seeds) + (0 if not self.by_divergence else max(self.diverged))
        between = interval(self.differences, 1 - alpha) if len(self.differences) > 1 else None
        verdict: Verdict = "cannot tell"
        needed = None
        if corrected <= alpha:
            less = (
                self.diverged[0] < self.diverged[1] if self.by_divergence else (float(np.mean(self.differences)) < 0) == lower
            )
            verdict = "better" if less else "worse"
        elif not self.by_divergence:
            needed = seeds_to_tell(self.differences, alpha / arms)
        why = self._why(corrected, arms, alpha, count)
        return ArmComparison(
            name, self.seeds, self.differences, self.diverged, between, self.p, corrected, verdict, needed, why
        )

    def _why(self, corrected: float, arms: int, alpha: float, count: int) -> str:
        """The reason in words."""
        several = f" (corrected for {arms} comparisons)" if arms > 1 else ""
        if self.by_divergence:
            return f"diverged with {self.diverged[0]} seeds, the base with {self.diverged[1]}; p = {corrected:.2g}{several}"
        if count < FEWEST:
            return f"{count} pairs of seeds, and a verdict takes {FEWEST} at least"
        if not any(self.differences):
            return "the same numbers with every seed"
        lower = sum(each < 0 for each in self.differences)
        pairs = f"lower with {lower} of {len(self.differences)} seeds; "
        said = f"{pairs}p = {corrected:.2g}{several}, {'at most' if corrected <= alpha else 'more than'} {alpha:g}"
        return said if corrected <= alpha or self.p > alpha else f"{said}; alone it would be p = {self.p:.2g}"
