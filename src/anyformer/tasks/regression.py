"""In-context regression."""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.task import Task, TaskBatch


class Regression(Task):
    """Points and their values under a linear function that differs from row to row; the value is asked at every point.

    x_1 y_1 ... x_n y_n with y_i = w . x_i, n = N // (d + 1); a point takes d symbols, its value one. Garg et al. 2022 (arXiv
    2208.01066) draw w and x from normal distributions and ask for the smallest squared error. Here their entries are whole
    numbers from -k to k, all equally likely, so that points and values are symbols, the answer is exact, and linear algebra
    gives it once d points that are independent were read. Whole functions are held out: none of the w that are tested is
    trained on.
    """

    paper: ClassVar[str] = "after Garg et al. 2022, arXiv 2208.01066"
    scored: ClassVar[str] = "the value, at the last entry of every point"
    level: ClassVar[str] = "P(w . x = 0)"
    kind: Literal["regression"] = "regression"
    inputs: Count = 3
    """d, entries of a point."""
    greatest: Annotated[int, Field(ge=1)] = 3
    """k, the greatest entry of points and weights."""

    @property
    def symbols(self) -> tuple[str, ...]:
        reach = self.inputs * self.greatest**2
        entries = tuple(f"x{number}" for number in range(-self.greatest, self.greatest + 1))
        return (*entries, *(f"y{number}" for number in range(-reach, reach + 1)))

    @property
    def least(self) -> int:
        return self.inputs + 1

    def chance(self, length: int) -> float:
        return _likeliest(self.inputs, self.greatest)

    def weights(self, draws: Draws) -> Ints:
        """(B, d): the function of each row."""
        return draws.below("weights", 2 * self.greatest + 1, self.inputs) - self.greatest

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        d, k = self.inputs, self.greatest
        count = length // (d + 1)
        points = draws.below("points", 2 * k + 1, count * d).reshape(len(draws), count, d) - k
        values = (2 * k + 1) + d * k**2 + np.einsum("bnd,bd->bn", points, self.weights(draws))
        tokens = np.concatenate([points + k, values[:, :, None]], axis=2).reshape(len(draws), -1)
        targets = np.full_like(tokens, IGNORED)
        targets[:, d - 1 :: d + 1] = values
        return TaskBatch.of(tokens, targets, self.chance(length))

    def split_by(self, draws: Draws, made: TaskBatch) -> Ints:
        return self.weights(draws) + self.greatest


@cache
def _likeliest(inputs: int, greatest: int) -> float:
    """The probability of the likeliest w . x, which is 0: counted over all products of two entries, d times added."""
    entries = np.arange(-greatest, greatest + 1)
    product = np.bincount((np.outer(entries, entries) + greatest**2).ravel(), minlength=2 * greatest**2 + 1) / len(entries) ** 2
    total = np.ones(1)
    for _ in range(inputs):
        total = np.convolve(total, product)
    return float(total.max())
