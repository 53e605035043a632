"""A staircase: the changes from one architecture to another, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.costs.change_labels import joined, labels
from anyformer.costs.transition import Keys, Transition, within
from anyformer.describe import DescriptionError
from anyformer.describe.path import differences, item_at, path_in
from anyformer.describe.value import as_data
from anyformer.model import Architecture


@dataclass(frozen=True)
class StairStep:
    """A step: the numbers of its changes, their `places`, a `label` that no other step has, and the architectures before and
    after it."""

    changes: tuple[int, ...]
    places: tuple[Keys, ...]
    label: str
    before: Architecture
    after: Architecture

    @property
    def moved(self) -> list[tuple[str, Any, Any]]:
        """(path, before, after) of every value that the step moves: of its changes, and of what follows of these."""
        before, after = self.before.resolved(), self.after.resolved()
        places = self.with_following(before, after)
        return [(path_in(before, after, keys), item_at(before, keys), item_at(after, keys)) for keys in places]

    def with_following(self, before: Architecture, after: Architecture) -> tuple[Keys, ...]:
        """The places of the changes, and others in which two architectures differ."""
        return (*self.places, *(keys for keys, *_ in differences(before, after) if not within(keys, self.places)))

    @property
    def word(self) -> str:
        """The label in small letters, numbers and `_`."""
        return re.sub(r"[^a-z0-9]+", "_", self.label.lower())


@dataclass(frozen=True)
class Stairs:
    """The steps that lead from one architecture to another; none where the two are equal.

    A value that changes in the same way in several places is one change, and changes that are valid only together are one step.
    Every value of an architecture in between is one of either end.
    """

    transition: Transition
    steps: tuple[StairStep, ...]

    @classmethod
    def between(cls, start: Architecture, to: Architecture) -> Stairs:
        """The steps from `start` to `to`, of which the earliest valid one comes next."""
        transition = Transition(start, to)
        named = labels(transition)
        steps, here = list[StairStep](), start
        for changes, made in _climbed(transition):
            places = tuple(keys for number in changes for keys in transition.changes[number])
            steps.append(StairStep(changes, places, joined([named[number] for number in changes]), here, made))
            here = made
        return cls(transition, tuple(steps))

    def alone(self, step: StairStep) -> dict[str, Any] | None:
        """What to set in the start, by path, for a step alone; None where it is not valid without some before it."""
        start, made = self.transition.start, _valid(self.transition, step.changes, self.transition.resolved[0])
        if made is None:
            return None
        return {path_in(start, made, keys): as_data(item_at(made, keys)) for keys in step.with_following(start, made)}

    def without(self, step: StairStep) -> Architecture | None:
        """What all steps but one make of the start; None where they are not valid without it."""
        others = [number for other in self.steps if other is not step for number in other.changes]
        return _valid(self.transition, others, self.transition.resolved[0])


def stairs(start: Architecture, to: Architecture, *, without: bool = True) -> dict[str, Architecture]:
    """Architectures on the way, by name: `plus_1_WORD`, `plus_2_WORD`, ..., the last of which is `to`; then `without_WORD`.

    An architecture that came up before, or is not valid without the change, is left out. Raises `DescriptionError` where the
    two are equal.
    """
    made = Stairs.between(start, to)
    if not made.steps:
        raise DescriptionError("staircase.to: is the architecture of the base: nothing differs")
    found = {f"plus_{number}_{step.word}": step.after for number, step in enumerate(made.steps, 1)}
    return found | (_all_but_one(made) if without else {})


def _all_but_one(stairs: Stairs) -> dict[str, Architecture]:
    """Architectures with all steps but one, those that are none of the way."""
    seen = {made.digest for made in (stairs.transition.resolved[0], *(step.after.resolved() for step in stairs.steps))}
    found = {}
    for step in stairs.steps:
        made = stairs.without(step)
        if made is not None and (digest := made.resolved().digest) not in seen:
            seen.add(digest)
            found[f"without_{step.word}"] = made
    return found


def _climbed(transition: Transition) -> Iterator[tuple[tuple[int, ...], Architecture]]:
    """The changes of every step, and what they make with those before."""
    taken, left, here = tuple[int, ...](), list(range(len(transition.changes))), transition.resolved[0]
    while left:
        step, made = _next(transition, taken, left, here)
        yield step, made
        taken += step
        left = [number for number in left if number not in step]
        here = made.resolved()


def _next(
    transition: Transition, taken: Sequence[int], left: Sequence[int], before: Architecture
) -> tuple[tuple[int, ...], Architecture]:
    """The first of the fewest neighbouring changes that are valid together, without those that need not be among them."""
    for size in range(1, len(left)):
        for at in range(len(left) - size + 1):
            step = tuple(left[at : at + size])
            if (made := _valid(transition, (*taken, *step), before)) is None:
                continue
            for number in step:
                fewer = tuple(other for other in step if other != number)
                if fewer and (less := _valid(transition, (*taken, *fewer), before)) is not None:
                    step, made = fewer, less
            return step, made
    return tuple(left), transition.to


def _valid(transition: Transition, changes: Sequence[int], before: Architecture) -> Architecture | None:
    try:
        return transition.taking(changes, before)
    except DescriptionError:
        return None
