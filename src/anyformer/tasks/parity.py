"""Parity."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from anyformer.tasks.draws import Draws
from anyformer.tasks.task import Task, TaskBatch


class Parity(Task):
    """Bits, and after every bit whether the ones so far are odd in number: y_t = x_1 xor ... xor x_t.

    One bit of state, which must change its sign at every one: a linear recurrence needs a negative eigenvalue for it (Grazzi et
    al. 2024, arXiv 2411.12537), and attention of fixed depth has none that holds at every length.
    """

    paper: ClassVar[str] = "Grazzi et al. 2024, arXiv 2411.12537"
    scored: ClassVar[str] = "the parity so far, at every bit"
    level: ClassVar[str] = "1 / 2"
    kind: Literal["parity"] = "parity"

    @property
    def symbols(self) -> tuple[str, ...]:
        return ("0", "1")

    @property
    def least(self) -> int:
        return 1

    def chance(self, length: int) -> float:
        return 1 / 2

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        bits = draws.below("bits", 2, length)
        return TaskBatch.of(bits, np.cumsum(bits, axis=1) % 2, self.chance(length), together=True)
