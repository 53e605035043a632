"""Compression."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import Task, TaskBatch, named


class Compression(Task):
    """Random letters, then the numbers of their places in random order, where the letter of the place is asked.

    x_1 ... x_n @j_1 ... @j_n with n = N // 2: a model without a growing cache must have put the whole row into its state. In
    Poli et al. 2024 (arXiv 2403.17844) a network of its own reads one state and says all letters; here the model itself is
    asked, so that attention, which looks back, is not held to one state.
    """

    paper: ClassVar[str] = "after Poli et al. 2024, arXiv 2403.17844"
    scored: ClassVar[str] = "the letter, at the number of its place"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["compression"] = "compression"
    letters: Count = 16
    """Letters that there are."""
    places: Count = 64
    """Numbers of places that there are, n at most."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("x", self.letters), *named("@", self.places))

    @property
    def least(self) -> int:
        return 2

    @property
    def most(self) -> int:
        return 2 * self.places

    def chance(self, length: int) -> float:
        return 1 / self.letters

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        count = length // 2
        letters, asked = draws.below("letters", self.letters, count), draws.shuffled("asked", count)
        tokens = np.concatenate([letters, self.letters + asked], axis=1)
        targets, distances = np.full_like(tokens, IGNORED), np.zeros_like(tokens)
        targets[:, count:] = np.take_along_axis(letters, asked, axis=1)
        distances[:, count:] = np.arange(count, 2 * count) - asked
        return TaskBatch.of(tokens, targets, self.chance(length), distances=distances, together=True)
