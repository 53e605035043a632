"""Needle in a haystack."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class Needle(Transduction):
    """A key and its value somewhere in a long row of other letters; at the end the key again, and its value is asked.

    x ... x k_i v_i x ... x k_i = v_i. With several needles each has a key of its own, and one of them is asked. The haystack is
    as long as the text, so that it is tested at lengths beyond training (Hsieh et al. 2024, RULER, arXiv 2404.06654, NIAH).
    """

    paper: ClassVar[str] = "Hsieh et al. 2024, arXiv 2404.06654"
    scored: ClassVar[str] = "the value behind the sign"
    level: ClassVar[str] = "1 / values"
    kind: Literal["needle"] = "needle"
    needles: Count = 1
    """Keys with a value in the haystack."""
    keys: Count = 16
    """Keys that there are."""
    values: Count = 32
    """Values that there are."""
    letters: Count = 32
    """Letters of the haystack."""

    @model_validator(mode="after")
    def _enough_keys(self) -> Needle:
        if self.needles > self.keys:
            raise ValueError(
                f"needles = {self.needles} need as many different keys, and keys = {self.keys}: set a greater keys"
            )
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("k", self.keys), *named("v", self.values), *named("x", self.letters), "=")

    @property
    def least(self) -> int:
        return 2 * self.needles + 2

    def chance(self, length: int) -> float:
        return 1 / self.values

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        hay, rows = length - 2, np.arange(len(draws))[:, None]
        keys = draws.shuffled("keys", self.keys, self.needles)
        values = self.keys + draws.below("values", self.values, self.needles)
        # Needles as one place each in a haystack that is shorter by their number: none overlaps another.
        places = np.sort(draws.shuffled("places", hay - self.needles, self.needles), axis=1) + np.arange(self.needles)
        question = self.keys + self.values + draws.below("letters", self.letters, hay + 1)
        question[rows, places], question[rows, places + 1] = keys, values
        asked = draws.below("asked", self.needles, 1)
        question[:, -1:] = np.take_along_axis(keys, asked, axis=1)
        answer = np.take_along_axis(values, asked, axis=1)
        distances = length - 1 - (np.take_along_axis(places, asked, axis=1) + 1)
        return self.line(question, answer, self.chance(length), self.keys + self.values + self.letters, distances)
