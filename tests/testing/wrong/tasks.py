"""Generated tasks that are wrong, each in one respect: two different letters in turn, of which the next one follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from tests.testing.wrong.table import Promises, Table

from anyformer.data import IGNORED
from anyformer.tasks import Draws, Task, TaskBatch
from anyformer.testing import tasks


class InTurn(Task):
    """a b a b ...: from the third position on, the next letter follows."""

    paper: ClassVar[str] = "made up for these tests"
    scored: ClassVar[str] = "every letter from the third on"
    level: ClassVar[str] = "1 / 12"
    asked_from: ClassVar[int] = 1
    back: ClassVar[int] = 1
    kind: Literal["in_turn"] = "in_turn"

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(f"x{number}" for number in range(12))

    @property
    def least(self) -> int:
        return 3

    def chance(self, length: int) -> float:
        return 1 / 12

    def letters(self, draws: Draws) -> np.ndarray:
        """Both letters of each row."""
        return draws.shuffled("letters", 12, 2)

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        row = self.letters(draws)[:, np.arange(length + 1) % 2]
        targets, distances = np.full((len(row), length), IGNORED), np.zeros((len(row), length), dtype=np.int64)
        first = self.asked_from
        targets[:, first:], distances[:, first:] = row[:, first + 1 :], self.back
        return TaskBatch.of(row[:, :-1], targets, self.chance(length), distances=distances)


def in_turn_by_hand(row: Sequence[str]) -> Mapping[int, str]:
    """What is to be said at each position once it is read."""
    return {place: row[place - 1] for place in range(1, len(row))}


def owed(made: type[InTurn]) -> Promises:
    task = made()
    solution = tasks.answers_are_those_of_its_solution
    return {each.__name__: partial(each, task) for each in tasks.CONTRACTS} | {
        solution.__name__: partial(solution, task, in_turn_by_hand)
    }


TASKS = Table(owed)


@TASKS.breaks("sequence_depends_on_its_number_and_the_seed_alone")
class OfItsPlace(InTurn):
    """Its letters depend on where a row stands in a batch."""

    kind: Literal["of_its_place"] = "of_its_place"

    def letters(self, draws: Draws) -> np.ndarray:
        found = super().letters(draws)
        return (found + np.arange(len(found))[:, None]) % 12


@TASKS.breaks("any_length_from_the_least_on_is_filled")
class TooShort(InTurn):
    """Says that one position is enough, at which it asks nothing."""

    kind: Literal["too_short"] = "too_short"

    @property
    def least(self) -> int:
        return 1


@TASKS.breaks("symbols_are_words_of_their_own")
class TwoWords(InTurn):
    """Its symbols have a space."""

    kind: Literal["two_words"] = "two_words"

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(f"letter {number}" for number in range(12))


@TASKS.breaks("distance_leads_back_to_the_target")
class TooFarBack(InTurn):
    """Its distances are one too large."""

    back = 2
    kind: Literal["too_far_back"] = "too_far_back"


@TASKS.breaks("chance_is_that_of_the_best_guess")
class TooEasy(InTurn):
    """States a chance that no guess reaches."""

    kind: Literal["too_easy"] = "too_easy"

    def chance(self, length: int) -> float:
        return 3 / 12


@TASKS.breaks("no_guess_is_better_than_the_chance")
class TooHard(InTurn):
    """States a chance that any guess exceeds, by less than the best guess of few rows tells."""

    kind: Literal["too_hard"] = "too_hard"

    def chance(self, length: int) -> float:
        return 0.6 / 12


@TASKS.breaks("answers_are_those_of_its_solution")
class AsksLess(InTurn):
    """Does not ask for the first letter that follows."""

    asked_from = 2
    kind: Literal["asks_less"] = "asks_less"
