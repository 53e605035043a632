"""The pairs that a mask allows, as an expression of its sizes and of the length, found by exact interpolation.

Counting pairs walks over positions, which no expression does. But the count is a polynomial in the length, the sizes, the
least of both, and the quotient and rest of the length by a size: the polynomial is solved for on small sizes, its coefficients
made fractions, and checked on others, small and large, to the unit. A mask that none fits has no expression.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement
from math import lcm
from operator import mul
from typing import Any, Literal

import numpy as np

Count = Callable[[int, tuple[int, ...]], int]
"""(positions, sizes) -> pairs."""
Call = Literal["first", "next"]
"""All positions at once, or the last one alone."""
CHECKS = 400
"""Checks of a polynomial beside the counts that it was solved for."""


@dataclass(frozen=True)
class PairFormula:
    """sum of coefficient * product of features, over a common divisor."""

    call: Call
    way: int
    divisor: int
    terms: tuple[tuple[int, tuple[int, ...]], ...]
    """(numerator, numbers of the features)."""

    def of(self, keys: Any, sizes: Sequence[Any]) -> Any:
        """The number of pairs; numbers may be traced."""
        features = list(_features(self.call, self.way, keys, sizes))
        total: Any = 0
        for numerator, factors in self.terms:
            total = total + numerator * reduce(mul, (features[i] for i in factors), 1)
        return total // self.divisor


def _features(call: Call, way: int, keys: Any, sizes: Sequence[Any]) -> Iterator[Any]:
    """What the polynomial is of; `way` 0: the least of length and sizes, 1: quotients and rests, 2: both."""
    yield keys
    yield from sizes
    if way in (0, 2):
        yield from (min(keys, size) for size in sizes)
    if way in (1, 2):
        whole = keys if call == "first" else keys - 1
        yield from (whole // max(size, 1) for size in sizes)
        yield from (whole % max(size, 1) for size in sizes)


WAYS = ((0, 2), (1, 3), (2, 3))
"""(features, degree) in the order tried."""


def pair_formula(count: Count, least: Sequence[int], call: Call) -> PairFormula | None:
    """The polynomial of a count; `least`: the smallest value of every size. None if there is none of these."""
    for way, degree in WAYS:
        found = _solved(count, least, call, way, degree)
        if found is not None and _holds(found, count, least):
            return found
    return None


def _sample(drawn: random.Random, least: Sequence[int], most: int) -> tuple[int, tuple[int, ...]]:
    return drawn.randint(1, most), tuple(drawn.randint(low, max(low, most // drawn.choice((1, 2, 5)))) for low in least)


def _solved(count: Count, least: Sequence[int], call: Call, way: int, degree: int) -> PairFormula | None:
    """The polynomial that goes through counts of small sizes."""
    drawn = random.Random(0)
    number = len(list(_features(call, way, 1, [1] * len(least))))
    monomials = [each for power in range(degree + 1) for each in combinations_with_replacement(range(number), power)]
    if len(monomials) > 150:
        return None
    points = [_sample(drawn, least, 24) for _ in range(3 * len(monomials))]
    rows = [list(_features(call, way, keys, sizes)) for keys, sizes in points]
    table = np.array([[reduce(mul, (row[i] for i in each), 1) for each in monomials] for row in rows], dtype=float)
    kept = _independent(table)
    wanted = np.array([count(*point) for point in points], dtype=float)
    solved, *_ = np.linalg.lstsq(table[:, kept] / (scale := np.abs(table[:, kept]).max(0)), wanted, rcond=None)
    fractions = [Fraction(float(x)).limit_denominator(24) for x in solved / scale]
    divisor = lcm(*(x.denominator for x in fractions))
    terms = [(int(x * divisor), monomials[i]) for i, x in zip(kept, fractions, strict=True) if x]
    return PairFormula(call, way, divisor, tuple(terms))


def _independent(table: np.ndarray[Any, Any]) -> list[int]:
    """The columns that no earlier ones make up."""
    kept: list[int] = []
    basis = np.zeros((len(table), 0))
    for i, column in enumerate(table.T):
        rest = column / (np.linalg.norm(column) or 1.0)
        for _ in range(2):  # twice is enough for orthogonality
            rest = rest - basis @ (basis.T @ rest)
        if (size := np.linalg.norm(rest)) > 1e-6:
            basis = np.concatenate([basis, (rest / size)[:, None]], 1)
            kept.append(i)
    return kept


def _holds(formula: PairFormula, count: Count, least: Sequence[int]) -> bool:
    """Whether a polynomial gives other counts to the unit, those of long texts too."""
    drawn = random.Random(1)
    points = [_sample(drawn, least, 60 if i % 4 else 3_000) for i in range(CHECKS)]
    return all(formula.of(keys, sizes) == count(keys, sizes) for keys, sizes in points)
