"""Contracts of generated tasks: draws are pure, answers follow from what is read, the stated chance is the best guess's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from anyformer.data import IGNORED
from anyformer.tasks import NOTHING, Draws, Task, TaskBatch

LENGTH, ROWS = 24, 4000
Solution = Callable[[Sequence[str]], Mapping[int, str]]
"""The symbols of a row to {position: symbol that is to be said there}."""


def length_of(task: Task) -> int:
    """A length that the task fills: 24, if it can."""
    return max(task.least, LENGTH if task.most is None else min(LENGTH, task.most))


def drawn(task: Task, rows: int = ROWS, seed: int = 1, length: int | None = None) -> TaskBatch:
    """Valid sequences of the task."""
    made = task.draw(Draws.of(np.arange(rows), seed), length or length_of(task))
    return made.those(np.flatnonzero(made.valid))


def answers_are_those_of_its_solution(task: Task, solution: Solution) -> None:
    """Targets stand where a plain solution says something, and are what it says."""
    made = drawn(task, 200)
    for tokens, targets in zip(made.tokens, made.targets, strict=True):
        row = [task.symbols[number] for number in tokens.tolist() if number != NOTHING]
        asked = {place: task.symbols[target] for place, target in enumerate(targets.tolist()) if target != IGNORED}
        said = dict(solution(row))
        assert asked == said, f"of {' '.join(row)} it asks {asked}, and the solution says {said}"


def chance_is_that_of_the_best_guess(task: Task) -> None:
    """For each place of an answer the likeliest target of half of the rows is guessed for the other half."""
    made = drawn(task)
    asked = made.targets != IGNORED
    places = np.broadcast_to(np.arange(asked.shape[1]), asked.shape)
    half = np.arange(len(made))[:, None] < len(made) // 2
    right = 0
    for place in np.unique(places[asked]):
        here = asked & (places == place)
        guess = np.bincount(made.targets[here & half]).argmax()
        right += int((made.targets[here & ~half] == guess).sum())
    reached = right / int((asked & ~half).sum())
    # Targets of a row are not independent of each other: as if each row had but one.
    spread, stated = 4 * math.sqrt(0.25 / (len(made) // 2)), task.chance(length_of(task))
    assert abs(reached - stated) <= spread, (
        f"a guess by position is right in {reached:.1%}, and the stated chance is {stated:.1%}"
    )
    mean = made.chances[asked].mean()
    assert math.isclose(mean, stated, rel_tol=1e-6), (
        f"chances of its targets have the mean {mean:.6g}, and it states {stated:.6g}"
    )
    assert not made.chances[~asked].any(), "chances stand where nothing is asked"


def no_guess_is_better_than_the_chance(task: Task) -> None:
    """A guess among all answers is right no more often than stated."""
    made = drawn(task)
    asked = made.targets != IGNORED
    possible = np.unique(made.targets[asked])
    guesses = np.random.default_rng(0).choice(possible, size=made.targets.shape)
    share, stated = (guesses == made.targets)[asked].mean(), task.chance(length_of(task))
    assert share <= stated + 4 * math.sqrt(0.25 / asked.sum()), f"a guess is right in {share:.1%}, and it states {stated:.1%}"


def sequence_depends_on_its_number_and_the_seed_alone(task: Task) -> None:
    """Sequences drawn together are those drawn alone; equal numbers give equal ones, another seed others."""
    n = length_of(task)
    numbers = np.array([7, 3, 11, 3])
    together, alone = task.draw(Draws.of(numbers, 5), n), [task.draw(Draws.of(numbers[i : i + 1], 5), n) for i in range(4)]
    for name in ("tokens", "targets", "answers", "distances"):
        same = getattr(together, name) == np.concatenate([getattr(each, name) for each in alone])
        assert same.all(), f"{name} of a sequence depend on those beside it"
    assert (together.tokens[1] == together.tokens[3]).all(), "two sequences of one number differ"
    assert (together.tokens != task.draw(Draws.of(numbers, 6), n).tokens).any(), "another seed gives the same sequences"


def distance_leads_back_to_the_target(task: Task) -> None:
    """Where a target has a distance, it stands so many positions before."""
    made = drawn(task, 200)
    rows, places = np.nonzero(made.distances)
    back = places - made.distances[rows, places]
    assert (made.tokens[rows, back] == made.targets[rows, places]).all(), "another symbol stands at the distance of a target"


def any_length_from_the_least_on_is_filled(task: Task) -> None:
    """At its least length, one more and a longer one it asks something, of symbols that it has."""
    for length in (task.least, task.least + 1, max(task.least, LENGTH + 5)):
        wanted = min(length, task.most or length)
        made = drawn(task, 50, length=wanted)
        assert made.tokens.shape[1] <= wanted, f"of {wanted} positions it fills {made.tokens.shape[1]}"
        assert made.tokens.max() < len(task.symbols), f"symbol {made.tokens.max()} has no name"
        assert (made.targets != IGNORED).any(), f"of {wanted} positions it asks nothing"


def symbols_are_words_of_their_own(task: Task) -> None:
    """Symbols are words without a space, each once."""
    symbols = task.symbols
    assert len(set(symbols)) == len(symbols), "a symbol is there twice"
    assert all(re.fullmatch(r"\S+", symbol) for symbol in symbols), "a symbol is no word"


CONTRACTS: tuple[Callable[[Task], None], ...] = (
    symbols_are_words_of_their_own,
    any_length_from_the_least_on_is_filled,
    sequence_depends_on_its_number_and_the_seed_alone,
    distance_leads_back_to_the_target,
    chance_is_that_of_the_best_guess,
    no_guess_is_better_than_the_chance,
)
NEEDS: Mapping[str, tuple[Callable[[Task], None], ...]] = {
    any_length_from_the_least_on_is_filled.__name__: (symbols_are_words_of_their_own,),
    sequence_depends_on_its_number_and_the_seed_alone.__name__: (any_length_from_the_least_on_is_filled,),
    distance_leads_back_to_the_target.__name__: (any_length_from_the_least_on_is_filled,),
    answers_are_those_of_its_solution.__name__: (any_length_from_the_least_on_is_filled,),
    chance_is_that_of_the_best_guess.__name__: (sequence_depends_on_its_number_and_the_seed_alone,),
    no_guess_is_better_than_the_chance.__name__: (chance_is_that_of_the_best_guess,),
}
"""Contract -> those that it presupposes."""
