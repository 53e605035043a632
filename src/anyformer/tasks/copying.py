"""Letters that come again: plain copying and reversal."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.describe import Count
from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class LettersAgain(Transduction):
    """Random letters, then the same letters in an order that is known beforehand."""

    scored: ClassVar[str] = "every letter behind the sign"
    level: ClassVar[str] = "1 / letters"
    kind: str
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
        letters, order = draws.below("letters", self.letters, count), self.order(count)
        return self.line(letters, letters[:, order], self.chance(length), self.letters, count + np.arange(count) - order)

    def order(self, count: int) -> Ints:
        """The place of each letter of the answer among those of the question."""
        raise NotImplementedError


class Copying(LettersAgain):
    """Random letters, then the same letters again: x_1 ... x_n = x_1 ... x_n.

    A state of fixed size holds only so many of them (Jelassi et al. 2024, arXiv 2402.01032).
    """

    paper: ClassVar[str] = "Jelassi et al. 2024, arXiv 2402.01032"
    kind: Literal["copying"] = "copying"

    def order(self, count: int) -> Ints:
        return np.arange(count)


class Reversal(LettersAgain):
    """Random letters, then the same letters from the last to the first: x_1 ... x_n = x_n ... x_1.

    What was read last is asked first, as from a stack (Deletang et al. 2022, arXiv 2207.02098, Reverse String).
    """

    paper: ClassVar[str] = "Deletang et al. 2022, arXiv 2207.02098"
    kind: Literal["reversal"] = "reversal"

    def order(self, count: int) -> Ints:
        return np.arange(count)[::-1]
