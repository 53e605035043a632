"""Errors that speak to people: what, where, the actual value, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a description: where it is, in the user's own path, and what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UserError(ValueError):
    """What a person asked for cannot be done; the message says what, where, the actual value and the remedy."""

    exit_code = 2
    """What the command line exits with."""


class DescriptionError(UserError):
    """A description is wrong; `problems` lists every finding, each at its path."""

    def __init__(self, problems: Iterable[Problem] | str, where: str = "") -> None:
        found = [Problem("", problems)] if isinstance(problems, str) else list(problems)
        self.problems: tuple[Problem, ...] = tuple(found)
        self.where = where
        lines = [str(problem) for problem in self.problems]
        super().__init__("\n".join([f"{where}:", *(f"  {line}" for line in lines)] if where else lines))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: a suggestion if one is near, then what is known."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listing = ", ".join(names) if len(names) <= 24 else ", ".join(names[:24]) + ", ..."
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    return f"{suggestion} (known: {listing})" if names else suggestion
