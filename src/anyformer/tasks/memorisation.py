"""Memorisation."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from anyformer.data.order import permuted
from anyformer.describe import Count
from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.task import Task, TaskBatch, named


class Memorisation(Task):
    """Keys whose values are nowhere told: one fixed table of facts, which only the weights can hold.

    k_1 ... k_N, each to be answered by its value. The table is the same in training and test, whose rows of keys differ. How
    many facts fit says how much the feed-forward networks hold (Poli et al. 2024, arXiv 2403.17844, memorisation).
    """

    paper: ClassVar[str] = "Poli et al. 2024, arXiv 2403.17844"
    scored: ClassVar[str] = "the value, at every key"
    level: ClassVar[str] = "ceil(keys / values) / keys"
    kind: Literal["memorisation"] = "memorisation"
    keys: Count = 256
    """Facts that there are."""
    values: Count = 64
    """Values that there are; all belong to equally many keys, or to one more."""
    table: Annotated[int, Field(ge=0)] = 0
    """Which table: its seed."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("k", self.keys), *named("v", self.values))

    @property
    def least(self) -> int:
        return 1

    def chance(self, length: int) -> float:
        return -(-self.keys // self.values) / self.keys

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        keys = draws.below("keys", self.keys, length)
        return TaskBatch.of(keys, self.keys + facts(self.keys, self.values, self.table)[keys], self.chance(length))


@lru_cache(maxsize=16)
def facts(keys: int, values: int, table: int) -> Ints:
    """(keys,): the value of each key in a table."""
    return permuted(np.arange(keys), keys, table) % values
