"""Plain copying."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class Copying(Transduction):
    """Random letters, then the same letters again: x_1 ... x_n = x_1 ... x_n.

    A state of fixed size holds only so many of them (Jelassi et al. 2024, arXiv 2402.01032).
    """

    paper: ClassVar[str] = "Jelassi et al. 2024, arXiv 2402.01032"
    scored: ClassVar[str] = "every letter behind the sign"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["copying"] = "copying"
    letters: Count = 26
    """Letters that there are."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("x", self.letters), "=")

    @property
    def least(self) -> int:
        return 2

    def chance(self, length: int) -> float:
        return 1 / self.letters

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        count = length // 2
        letters = draws.below("letters", self.letters, count)
        return self.line(letters, letters, self.chance(length), self.letters, np.full(count, count))
