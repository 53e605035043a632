"""A staircase: the changes from one architecture to another, one after the other, and all but one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.describe import DescriptionError, change_all, diff, get
from anyformer.describe.path import Key, resolve
from anyformer.describe.value import as_data
from anyformer.model import Architecture

Changes = Mapping[str, Any]
"""Values by path."""


def stairs(start: Architecture, to: Architecture, *, without: bool = True) -> dict[str, Architecture]:
    """Architectures on the way, by name: `plus_1_WORD`, `plus_2_WORD`, ..., the last of which is `to`; then `without_WORD`.

    A value that changes in the same way in several places is one change, and changes that are valid only together are one step.
    An architecture that came up before, or is not valid without the change, is left out. Raises `DescriptionError` where the
    two are equal.
    """
    steps = steps_between(start, to)
    if not steps:
        raise DescriptionError("staircase.to: is the architecture of the base: nothing differs")
    words = [word_of_step(step) for step in steps]
    found: dict[str, Architecture] = {}
    here = start
    for number, (step, word) in enumerate(zip(steps, words, strict=True), 1):
        here = change_all(here, step)
        found[f"plus_{number}_{word}"] = here
    assert here == to, "all changes together make the other architecture"
    seen = {start.digest, *(made.digest for made in found.values())}
    for number, word in enumerate(words) if without else ():
        try:
            made = change_all(start, _together(steps[:number] + steps[number + 1 :]))
        except DescriptionError:
            continue
        if made.digest not in seen:
            seen.add(made.digest)
            found[_free(f"without_{word}", found)] = made
    return found


def steps_between(start: Architecture, to: Architecture) -> list[Changes]:
    """The changes that lead from one architecture to another, one after the other; none where the two are equal."""
    return _steps(start, _changes(start, to))


def _changes(start: Architecture, to: Architecture) -> list[Changes]:
    """The differences, those alike in one."""
    grouped: dict[tuple[str, str, str], dict[str, Any]] = {}
    whole = _wholes(start, to)
    for path, old, new in diff(start, to):
        if not any(_within(start, to, path, keys) for keys in whole.values()):
            grouped.setdefault((path.rpartition(".")[2], repr(old), repr(new)), {})[path] = as_data(new)
    return [*({path: as_data(get(to, path))} for path in whole), *grouped.values()]


def _wholes(start: Architecture, to: Architecture) -> dict[str, list[Key]]:
    """The keys by path of tables of names, such as the variants of a stack, that change as a whole: some of the names that the
    other has are not there yet."""
    found: dict[str, list[Key]] = {}
    for path, _, _ in diff(start, to):
        try:
            resolve(start, path)
        except DescriptionError:
            keys = resolve(to, path)[:-1]
            found[".".join(map(str, keys))] = keys
    return found


def _within(start: Architecture, to: Architecture, path: str, keys: Sequence[Key]) -> bool:
    """Whether a path leads into the table at some keys, in whichever has it."""
    for one in (start, to):
        try:
            return resolve(one, path)[: len(keys)] == list(keys)
        except DescriptionError:
            continue
    return False


def _steps(start: Architecture, changes: Sequence[Changes]) -> list[Changes]:
    """Changes in an order in which a step is valid after those before it; the earliest valid one comes next."""
    steps: list[Changes] = []
    left, here = list(changes), start
    while left:
        size = next(size for size in range(1, len(left) + 1) if _first_valid(here, left, size) is not None)
        at = _first_valid(here, left, size)
        assert at is not None
        step = _together(left[at : at + size])
        steps.append(step)
        left, here = left[:at] + left[at + size :], change_all(here, step)
    return steps


def _first_valid(here: Architecture, left: Sequence[Changes], size: int) -> int | None:
    """The place of the first `size` neighbouring changes that are valid together."""
    for at in range(len(left) - size + 1):
        try:
            change_all(here, _together(left[at : at + size]))
        except DescriptionError:
            continue
        return at
    return None


def _together(steps: Sequence[Changes]) -> dict[str, Any]:
    return {path: new for step in steps for path, new in step.items()}


def word_of_step(step: Changes) -> str:
    """A name for a step: the last word of its path, and the one before where that is `kind`."""
    words = next(iter(step)).split(".")
    named = words[-2:] if words[-1] == "kind" and len(words) > 1 else words[-1:]
    return re.sub(r"[^a-z0-9_]", "_", "_".join(named))


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """The name, with a number where it is taken."""
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(each for each in numbered if each not in taken)
