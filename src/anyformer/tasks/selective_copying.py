"""Selective copying."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class SelectiveCopying(Transduction):
    """A few letters at random places among blanks `_`, then the letters alone, in their order: _ x_1 _ _ x_2 = x_1 x_2.

    Where the letters stand is not known beforehand, so that no fixed distance finds them (Gu & Dao 2023, arXiv 2312.00752).
    """

    paper: ClassVar[str] = "Gu & Dao 2023, arXiv 2312.00752"
    scored: ClassVar[str] = "every letter behind the sign"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["selective_copying"] = "selective_copying"
    items: Count = 8
    """Letters to be copied."""
    letters: Count = 16
    """Letters that there are."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("x", self.letters), "_", "=")

    @property
    def least(self) -> int:
        return 2 * self.items

    def chance(self, length: int) -> float:
        return 1 / self.letters

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        read = length - self.items
        places = np.sort(draws.shuffled("places", read, self.items), axis=1)
        letters = draws.below("letters", self.letters, self.items)
        question = np.full((len(draws), read), self.letters, dtype=np.int64)
        np.put_along_axis(question, places, letters, axis=1)
        distances = read + np.arange(self.items) - places
        return self.line(question, letters, self.chance(length), self.letters + 1, distances)
