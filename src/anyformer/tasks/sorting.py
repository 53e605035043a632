"""Sorting."""

from __future__ import annotations

from functools import lru_cache
from math import lgamma
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class Sorting(Transduction):
    """Random numbers, then the same numbers in ascending order: x_1 ... x_n = x_(1) ... x_(n) (Zhou et al. 2023, 2310.16028).

    The k-th smallest is likely about k / n of the greatest number, so a guess is better than one of all numbers: its chance is
    max_v P(x_(k) = v), P(x_(k) <= v) = sum_{j >= k} C(n, j) F^j (1 - F)^{n - j}, F = v / numbers.
    """

    paper: ClassVar[str] = "Zhou et al. 2023, arXiv 2310.16028"
    scored: ClassVar[str] = "every number behind the sign"
    level: ClassVar[str] = "mean over k of max_v P(the k-th smallest is v)"
    kind: Literal["sorting"] = "sorting"
    numbers: Count = 32
    """Numbers that there are."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("n", self.numbers), "=")

    @property
    def least(self) -> int:
        return 2

    def chance(self, length: int) -> float:
        return float(likeliest(self.numbers, length // 2).mean())

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        count = length // 2
        question = draws.below("numbers", self.numbers, count)
        order = np.argsort(question, axis=1, kind="stable")
        answer = np.take_along_axis(question, order, axis=1)
        return self.line(question, answer, likeliest(self.numbers, count), self.numbers, count + np.arange(count) - order)


@lru_cache(maxsize=64)
def likeliest(numbers: int, count: int) -> NDArray[np.float64]:
    """(count,): the probability of the likeliest k-th smallest of `count` numbers out of 1 ... `numbers`, k = 1 ... count."""
    share = np.arange(1, numbers)[:, None] / numbers
    below = np.arange(count + 1)
    ways = np.array([lgamma(count + 1) - lgamma(j + 1) - lgamma(count - j + 1) for j in below])
    exactly = np.exp(ways + below * np.log(share) + (count - below) * np.log1p(-share))
    # P(x_(k) <= v) for v = 0 ... numbers: at least k of the numbers are among the v smallest.
    at_most = np.cumsum(exactly[:, ::-1], axis=1)[:, ::-1][:, 1:]
    edges = np.concatenate([np.zeros((1, count)), at_most, np.ones((1, count))])
    result: NDArray[np.float64] = np.diff(edges, axis=0).max(0)
    return result
