"""Reversal."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class Reversal(Transduction):
    """Random letters, then the same letters from the last to the first: x_1 ... x_n = x_n ... x_1.

    What was read last is asked first, as from a stack (Deletang et al. 2022, arXiv 2207.02098, Reverse String).
    """

    paper: ClassVar[str] = "Deletang et al. 2022, arXiv 2207.02098"
    scored: ClassVar[str] = "every letter behind the sign"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["reversal"] = "reversal"
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
        return self.line(letters, letters[:, ::-1], self.chance(length), self.letters, 2 * np.arange(count) + 1)
