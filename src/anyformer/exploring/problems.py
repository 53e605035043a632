"""What is wrong with a question, so that a page can show it in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.describe import DescriptionError, UserError, parse_assignment
from anyformer.describe.changing import changed
from anyformer.describe.errors import suggested
from anyformer.model import Architecture


class UnknownNameError(UserError):
    """Nothing has the name that was asked for."""


class RefusedChangeError(UserError):
    """Changes that an architecture does not take; `found`: every problem in its place."""

    def __init__(self, found: Sequence[PlacedProblem]) -> None:
        super().__init__("\n".join(each.text for each in found))
        self.found = tuple(found)


@dataclass(frozen=True)
class PlacedProblem:
    """One thing wrong: the path where, the message, the number of the change at fault (None: no single one), names that were
    perhaps meant, and the whole in a sentence."""

    path: str
    message: str
    set: int | None
    suggestions: tuple[str, ...]
    text: str

    def data(self) -> dict[str, Any]:
        return {
            "path": self.path, "message": self.message, "set": self.set, "suggestions": list(self.suggestions),
            "text": self.text,
        }  # fmt: skip


def plain_problem(text: str) -> PlacedProblem:
    """A problem of the question itself: `length: should be ...`."""
    path, colon, message = text.partition(": ")
    named = bool(colon) and " " not in path
    return PlacedProblem(path if named else "", message if named else text, None, tuple(suggested(text)), text)


def refused(base: Architecture, changes: Sequence[str], error: DescriptionError) -> list[PlacedProblem]:
    """The problems of changes that were refused together, with the change at fault where one alone is."""
    at = at_fault(base, changes)
    own = "" if at is None else changes[at].partition("=")[0].strip()
    found = []
    for problem in error.problems:
        path, message = problem.path or own, problem.message
        if own and message.startswith(f"{own}: "):
            message = message.removeprefix(f"{own}: ")
        found.append(PlacedProblem(path, message, at, tuple(suggested(message)), str(problem)))
    return found


def at_fault(base: Architecture, changes: Sequence[str]) -> int | None:
    """The number of the change without which the others are taken, the newest such; None where there is none."""
    for at in reversed(range(len(changes))):
        try:
            changed(base, dict(map(parse_assignment, [*changes[:at], *changes[at + 1 :]])))
        except DescriptionError:
            continue
        return at
    return None
