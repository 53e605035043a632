"""Decimal addition."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.task import TaskBatch
from anyformer.tasks.transduction import Transduction

_BASE = 10


class Addition(Transduction):
    """Two numbers of n decimal digits and their sum of n + 1, a symbol per digit: 2 7 + 8 4 = 1 1 1.

    Zeros in front are written. n is as many digits as fit into the sequence, 3 n + 2 positions. A sum that is held out is so in
    both orders and with any zeros in front: what decides is the pair of numbers. Written with the last digit first, a digit of
    the sum follows from two digits and a carry that stands there already (Lee et al. 2023, arXiv 2307.03381).
    """

    paper: ClassVar[str] = "Lee et al. 2023, arXiv 2307.03381"
    scored: ClassVar[str] = "every digit of the sum"
    level: ClassVar[str] = "(n / 10 + (1 + 10^-n) / 2) / (n + 1)"
    kind: Literal["addition"] = "addition"
    digits: Annotated[int, Field(ge=1, le=18)] = 3
    """The most digits of a number."""
    first: Literal["greatest", "least"] = "greatest"
    """Which digit of the sum stands first: that of the greatest power of ten, as it is written, or that of the least."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*map(str, range(_BASE)), "+", "=")

    @property
    def least(self) -> int:
        return 5

    @property
    def most(self) -> int:
        return 3 * self.digits + 2

    def width(self, length: int) -> int:
        """n, the digits of a number in a sequence of so many positions."""
        return min(self.digits, (length - 2) // 3)

    def chances(self, n: int) -> list[float]:
        """Those of the sum's digits, the greatest first: a carry is there in (1 - 10^-n) / 2 of all sums, and all digits of a
        lower power are equally likely."""
        return [(1 + _BASE**-n) / 2, *[1 / _BASE] * n]

    def chance(self, length: int) -> float:
        n = self.width(length)
        return sum(self.chances(n)) / (n + 1)

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        n = self.width(length)
        numbers = draws.below("digits", _BASE, 2 * n).reshape(len(draws), 2, n)
        total = np.concatenate([np.zeros((len(draws), 1), dtype=np.int64), numbers.sum(1)], axis=1)
        for place in range(n, 0, -1):
            total[:, place - 1] += total[:, place] // _BASE
            total[:, place] %= _BASE
        plus = np.full((len(draws), 1), _BASE, dtype=np.int64)
        question = np.concatenate([numbers[:, 0], plus, numbers[:, 1]], axis=1)
        turn = slice(None, None, 1 if self.first == "greatest" else -1)
        return self.line(question, total[:, turn], self.chances(n)[turn], _BASE + 1)

    def split_by(self, draws: Draws, made: TaskBatch) -> Ints:
        n = int(made.sources[0]) // 2 if len(made) else 1
        powers = _BASE ** np.arange(n - 1, -1, -1)
        both = np.stack([made.tokens[:, :n] @ powers, made.tokens[:, n + 1 : 2 * n + 1] @ powers], axis=1)
        ordered: Ints = np.sort(both, axis=1)
        return ordered
