"""Indirect-object identification."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class IndirectObject(Transduction):
    """Two names among other letters, then one of the two again; behind the sign stands the other, which is asked.

    x ... n_a x ... n_b x ... n_a x ... = n_b, the two first in either order, as in "when Mary and John went to the shop, John
    gave a drink to": Mary. All stand at random places, so that only what was said twice tells the two apart (Wang et al.
    2022, arXiv 2211.00593).
    """

    paper: ClassVar[str] = "Wang et al. 2022, arXiv 2211.00593"
    scored: ClassVar[str] = "the name behind the sign"
    level: ClassVar[str] = "1 / names"
    kind: Literal["indirect_object"] = "indirect_object"
    names: Annotated[int, Field(ge=2, le=1024)] = 32
    """Names that there are."""
    letters: Count = 16
    """Letters between names."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("n", self.names), *named("x", self.letters), "=")

    @property
    def least(self) -> int:
        return 4

    def chance(self, length: int) -> float:
        return 1 / self.names

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        rows, told = np.arange(len(draws))[:, None], length - 1
        question = self.names + draws.below("letters", self.letters, told)
        names = draws.shuffled("names", self.names, 2)
        places = np.sort(draws.shuffled("places", told, 3), axis=1)
        twice = draws.below("twice", 2, 1)
        question[rows, places] = np.concatenate([names, np.take_along_axis(names, twice, axis=1)], axis=1)
        answer = np.take_along_axis(names, 1 - twice, axis=1)
        distances = told - np.take_along_axis(places, 1 - twice, axis=1)
        return self.line(question, answer, self.chance(length), self.names + self.letters, distances)
