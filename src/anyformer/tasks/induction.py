"""Induction: what followed last time follows again."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import Task, TaskBatch, named


class Induction(Task):
    """Different letters in random order, then a piece of them again from a random place: what comes next is what came then.

    x_1 ... x_n x_s ... x_{s+m-1} with n = ceil(2 N / 3), m = N - n. Looking for the letter itself finds it, not what followed;
    and how far back the piece stands differs from row to row, so that a fixed distance finds nothing: it takes a head that
    marks each position with the letter before it, and one that looks for that mark (Olsson et al. 2022, arXiv 2209.11895).
    """

    paper: ClassVar[str] = "Olsson et al. 2022, arXiv 2209.11895"
    scored: ClassVar[str] = "the next letter, at every letter of the piece"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["induction"] = "induction"
    letters: Count = 64
    """Letters that there are: at least two thirds of the length."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return named("x", self.letters)

    @property
    def least(self) -> int:
        return 4

    @property
    def most(self) -> int:
        return 3 * self.letters // 2

    def chance(self, length: int) -> float:
        return 1 / self.letters

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        first = -(-2 * length // 3)
        again = length - first
        letters = draws.shuffled("letters", self.letters, first)
        starts = draws.below("start", first - again, 1)
        places = starts + np.arange(again + 1)
        piece = np.take_along_axis(letters, places, axis=1)
        tokens = np.concatenate([letters, piece[:, :-1]], axis=1)
        targets, distances = np.full_like(tokens, IGNORED), np.zeros_like(tokens)
        targets[:, first:] = piece[:, 1:]
        distances[:, first:] = np.arange(first, length) - places[:, 1:]
        return TaskBatch.of(tokens, targets, self.chance(length), distances=distances)
