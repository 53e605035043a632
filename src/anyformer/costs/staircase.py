"""A staircase: the changes from one architecture to another, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyformer.costs.change_labels import joined, labels
from anyformer.costs.layer_kinds import comes_last, renamed_kinds, values_at
from anyformer.costs.transition import Keys, Transition, within
from anyformer.describe import DescriptionError, change_all
from anyformer.describe.path import differences, item_at, path_in
from anyformer.describe.value import as_data
from anyformer.model import Architecture


@dataclass(frozen=True)
class StairStep:
    """A step: the numbers of its changes, their `places`, a `label` that no other step has, and the architectures before and
    after it. A step that takes over the names of kinds of layers has no such changes, and `copies` at the new names."""

    changes: tuple[int, ...]
    places: tuple[Keys, ...]
    label: str
    before: Architecture
    after: Architecture
    copies: Mapping[Keys, str] = field(default_factory=dict)

    @property
    def moved(self) -> list[tuple[str, Any, Any]]:
        """(path, before, after) of every value that the step moves: of its changes, and of what follows of these; after a kind
        of layer that is copied stands the name of what it is a copy of."""
        before, after = self.before.resolved(), self.after.resolved()
        values = values_at(after, self.with_following(before, after), self.copies)
        return [(path_in(before, after, keys), item_at(before, keys), value) for keys, value in values]

    def with_following(self, before: Architecture, after: Architecture) -> tuple[Keys, ...]:
        """The places of the changes, and others in which two architectures differ."""
        return (*self.places, *(keys for keys, *_ in differences(before, after) if not within(keys, self.places)))

    @property
    def stack(self) -> str:
        """The stack of its first place."""
        return str(self.places[0][0])

    @property
    def word(self) -> str:
        """The label in small letters, numbers and `_`."""
        return re.sub(r"[^a-z0-9]+", "_", self.label.lower())


@dataclass(frozen=True)
class Stairs:
    """The steps that lead from one architecture to another; none where the two are equal.

    A value that changes in the same way in several places is one change, and changes that are valid only together are one step.
    Every value of an architecture in between is one of either end. Kinds of layers that the other end has and the start has not
    are copied first (`coming`), and those that it has not go last (`going`): what is `valued` in between is a `transition` of
    two architectures with the same kinds.
    """

    start: Architecture
    to: Architecture
    transition: Transition
    coming: tuple[StairStep, ...]
    valued: tuple[StairStep, ...]
    going: tuple[StairStep, ...]

    @classmethod
    def between(cls, start: Architecture, to: Architecture) -> Stairs:
        """The steps from `start` to `to`, of which the earliest valid one comes next."""
        going = _going(start, to)
        coming = _coming(start, to, [step.stack for step in going])
        here = coming[-1].after if coming else start
        transition = Transition(here, going[0].before if going else to)
        named, valued = labels(transition), list[StairStep]()
        for changes, made in _climbed(transition):
            places = tuple(keys for number in changes for keys in transition.changes[number])
            valued.append(StairStep(changes, places, joined([named[number] for number in changes]), here, made))
            here = made
        return cls(start, to, transition, coming, tuple(valued), going)

    @property
    def steps(self) -> tuple[StairStep, ...]:
        """All steps, one after the other."""
        return (*self.coming, *self.valued, *self.going)

    def alone(self, step: StairStep) -> dict[str, Any] | None:
        """What to set in the start, by path, for a step alone, and for the kinds of layers that it needs; None where it is not
        valid without some before it."""
        if not step.changes:
            renamed = renamed_kinds(self.start, self.to, step.stack)
            return None if renamed is None else _set(self.start, renamed.made, renamed.places, renamed.copies)
        opened, made = self.transition.start, _valid(self.transition, step.changes, self.transition.resolved[0])
        if made is None:
            return None
        places = step.with_following(opened, made)
        values, layers = _set(opened, made, places, {}), [(name, "variants") for name in opened.stacks]
        if not any(within(keys, layers) for keys in places) and _takes(self.start, values):
            return values
        first = [_set(each.before, each.after, each.places, each.copies) for each in self.coming]
        return {path: value for each in (*first, values) for path, value in each.items()}

    def without(self, step: StairStep) -> Architecture | None:
        """What all steps but one make of the start; None where they are not valid without it."""
        if not step.changes:
            return None
        others = [number for other in self.valued if other is not step for number in other.changes]
        made = _valid(self.transition, others, self.transition.resolved[0])
        for each in self.going:
            renamed = None if made is None else renamed_kinds(made, self.to, each.stack)
            made = None if renamed is None else renamed.made
        return made


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
    seen = {made.digest for made in (stairs.start.resolved(), *(step.after.resolved() for step in stairs.steps))}
    found = {}
    for step in stairs.steps:
        made = stairs.without(step)
        if made is not None and (digest := made.resolved().digest) not in seen:
            seen.add(digest)
            found[f"without_{step.word}"] = made
    return found


def _coming(start: Architecture, to: Architecture, others: Sequence[str]) -> tuple[StairStep, ...]:
    """A step per stack to whose kinds of layers some come, but for `others`."""
    steps, here = list[StairStep](), start
    for name in _in_both(start, to):
        if name not in others and (renamed := renamed_kinds(here, to, name)) is not None:
            steps.append(StairStep((), renamed.places, renamed.label, here, renamed.made, renamed.copies))
            here = renamed.made
    return tuple(steps)


def _going(start: Architecture, to: Architecture) -> tuple[StairStep, ...]:
    """A step per stack of whose kinds of layers some go."""
    steps, there = list[StairStep](), to
    for name in _in_both(start, to):
        if not comes_last(start.stacks[name], to.stacks[name]) or (before := renamed_kinds(there, start, name)) is None:
            continue
        renamed = renamed_kinds(before.made, to, name)
        if renamed is None or any(differences(renamed.made.resolved(), there.resolved())):
            continue
        steps.insert(0, StairStep((), renamed.places, renamed.label, before.made, there, renamed.copies))
        there = before.made
    return tuple(steps)


def _in_both(start: Architecture, to: Architecture) -> list[str]:
    return [name for name in start.stacks if name in to.stacks]


def _set(before: Architecture, after: Architecture, places: Sequence[Keys], copies: Mapping[Keys, str]) -> dict[str, Any]:
    """What to set in an architecture, by path, to make another of it that differs in some places."""
    return {path_in(before, after, keys): as_data(value) for keys, value in values_at(after, places, copies)}


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


def _takes(one: Architecture, values: Mapping[str, Any]) -> bool:
    """Whether an architecture is valid with other values."""
    try:
        change_all(one, values)
    except DescriptionError:
        return False
    return True


def _valid(transition: Transition, changes: Sequence[int], before: Architecture) -> Architecture | None:
    try:
        return transition.taking(changes, before)
    except DescriptionError:
        return None
