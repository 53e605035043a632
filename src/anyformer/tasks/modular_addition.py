"""Modular addition."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.tasks.draws import Draws
from anyformer.tasks.task import TaskBatch, named
from anyformer.tasks.transduction import Transduction


class ModularAddition(Transduction):
    """Two numbers and their sum modulo p: a b = c, c = (a + b) mod p.

    The table has p^2 rows, of which `data.held_out` are only tested: a model may know all others long before it finds the rule
    (grokking, Power et al. 2022, arXiv 2201.02177, with half of the table). a b and b a are two rows.
    """

    paper: ClassVar[str] = "Power et al. 2022, arXiv 2201.02177"
    scored: ClassVar[str] = "the sum behind the sign"
    level: ClassVar[str] = "1 / modulus"
    kind: Literal["modular_addition"] = "modular_addition"
    modulus: Annotated[int, Field(ge=2)] = 97
    """p."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("n", self.modulus), "=")

    @property
    def least(self) -> int:
        return 3

    @property
    def most(self) -> int:
        return 3

    def chance(self, length: int) -> float:
        return 1 / self.modulus

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        question = draws.below("numbers", self.modulus, 2)
        answer = question.sum(1, keepdims=True) % self.modulus
        return self.line(question, answer, self.chance(length), self.modulus)
