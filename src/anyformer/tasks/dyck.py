"""Nested brackets."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import NOTHING, Task, TaskBatch, named


class Dyck(Task):
    """Brackets of k kinds, nested to a depth of at most m; a `)` says that one closes, and which one is asked (Dyck-(k, m)).

    (_0 (_2 ) (_1 ) ): at a `)` the answer is the kind of the latest open bracket. Brackets open or close with probability 1/2,
    and open where none is open, and close at the greatest depth. It takes a stack of m kinds (Hewitt et al. 2020, arXiv
    2010.07515; there the model says the closing bracket itself, which here would leave open whether one closes).
    """

    paper: ClassVar[str] = "Hewitt et al. 2020, arXiv 2010.07515"
    scored: ClassVar[str] = "the kind of the bracket that closes, at every `)`"
    level: ClassVar[str] = "1 / brackets"
    kind: Literal["dyck"] = "dyck"
    brackets: Count = 8
    """k, kinds of brackets."""
    depth: Count = 8
    """m, the most brackets that are open at once."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("(", self.brackets), ")")

    @property
    def least(self) -> int:
        return 2

    def chance(self, length: int) -> float:
        return 1 / self.brackets

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        rows = np.arange(len(draws))
        kinds, turns = draws.below("kinds", self.brackets, length), draws.below("turns", 2, length)
        tokens = np.full((len(draws), length), self.brackets, dtype=np.int64)
        targets, distances = np.full_like(tokens, IGNORED), np.zeros_like(tokens)
        opened = np.full((len(draws), self.depth), NOTHING, dtype=np.int64)
        depth = np.zeros(len(draws), dtype=np.int64)
        for place in range(length):
            opens = (depth == 0) | ((depth < self.depth) & (turns[:, place] == 1))
            up, down = rows[opens], rows[~opens]
            tokens[up, place] = kinds[up, place]
            opened[up, depth[up]] = place
            matching = opened[down, depth[down] - 1]
            targets[down, place] = tokens[down, matching]
            distances[down, place] = place - matching
            depth += np.where(opens, 1, -1)
        return TaskBatch.of(tokens, targets, self.chance(length), distances=distances)
