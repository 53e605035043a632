"""Multi-query associative recall."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws
from anyformer.tasks.task import Task, TaskBatch, named


class MQAR(Task):
    """Keys and their values are told; later the keys come again, and their values are asked (multi-query associative recall).

    k_1 v_1 ... k_P v_P, then the P keys at random places among blanks `_`. The answers are not read, so that any of them can be
    asked in any order. Arora et al. 2023 (arXiv 2312.04927) place queries near by a power law; here every place is as likely.
    """

    paper: ClassVar[str] = "Arora et al. 2023, arXiv 2312.04927"
    scored: ClassVar[str] = "the value, at every key that comes again"
    level: ClassVar[str] = "1 / values"
    kind: Literal["mqar"] = "mqar"
    pairs: Count = 8
    """P, keys that are told."""
    keys: Count = 64
    """Keys that there are."""
    values: Count = 64
    """Values that there are."""

    @model_validator(mode="after")
    def _enough_keys(self) -> MQAR:
        if self.pairs > self.keys:
            raise ValueError(f"pairs = {self.pairs} need as many different keys, and keys = {self.keys}: set a greater keys")
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("k", self.keys), *named("v", self.values), "_")

    @property
    def least(self) -> int:
        return 3 * self.pairs

    def chance(self, length: int) -> float:
        return 1 / self.values

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        told, rows = 2 * self.pairs, np.arange(len(draws))[:, None]
        tokens = np.full((len(draws), length), self.keys + self.values, dtype=np.int64)
        targets, distances = np.full_like(tokens, IGNORED), np.zeros_like(tokens)
        tokens[:, 0:told:2] = keys = draws.shuffled("keys", self.keys, self.pairs)
        tokens[:, 1:told:2] = values = self.keys + draws.below("values", self.values, self.pairs)
        places = told + draws.shuffled("places", length - told, self.pairs)
        tokens[rows, places], targets[rows, places] = keys, values
        distances[rows, places] = places - np.arange(1, told, 2)
        return TaskBatch.of(tokens, targets, self.chance(length), distances=distances)
