"""Errors that speak to people: what, where, the actual value, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from anyformer.describe.nearest import nearest


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a description: where it is, in the user's own path, and what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UserError(ValueError):
    """A request that cannot be fulfilled; the message says what, where, the actual value and the remedy."""

    exit_code = 2
    """The exit code of the command line."""
    teller: int | None = None
    """Of several processes that raise it, the number of the one that tells the user; None where they do not know of one
    another."""


class InputError(UserError):
    """An input does not fit the model."""


class Notice(UserWarning):
    """A warning to the user; the work goes on."""


class DescriptionError(UserError):
    """A description is wrong; `problems` lists every finding, each at its path."""

    def __init__(self, problems: Iterable[Problem] | str, where: str = "") -> None:
        self.problems = (Problem("", problems),) if isinstance(problems, str) else tuple(problems)
        lines = map(str, self.problems)
        super().__init__("\n".join([f"{where}:", *(f"  {line}" for line in lines)] if where else lines))


_SUGGESTION, _QUOTED = re.compile(r"did you mean (.*?)\?"), re.compile(r"'([^']*)'")
SUGGESTED = 6
"""The most names in a suggestion."""
LISTED = 8
"""The most known names that an error lists."""


def did_you_mean(name: str, known: Iterable[str], all_by: str = "", listed: int | None = None) -> str:
    """The tail of an error about an unknown name: the nearest names, and the known ones if they are few or none is near.

    `all_by`: the command or page that lists the known names, if they are many. `listed`: how many it lists, if not all.
    """
    names = list(dict.fromkeys(known))
    near = nearest(name, names)
    suggestion = f"; did you mean {_either(near)}?" if near else ""
    if len(names) <= LISTED:
        return f"{suggestion} (known: {', '.join(names)})" if names else suggestion
    if all_by:
        return f"{suggestion or ';'} {all_by} lists the {len(names) if listed is None else listed}"
    if near:
        return suggestion
    return f" (known: {', '.join(names[:LISTED])} and {len(names) - LISTED} more)"


def suggested(message: str) -> list[str]:
    """The names that a message suggests by `did_you_mean`, nearest first."""
    found = _SUGGESTION.search(message)
    return [] if found is None else _QUOTED.findall(found[1])


def _either(near: list[str]) -> str:
    """'a', 'b' or 'c'; of many names the first few."""
    *others, last = map(repr, near[:SUGGESTED])
    if len(near) > SUGGESTED:
        return f"{', '.join([*others, last])} or another of {len(near)}"
    return f"{', '.join(others)} or {last}" if others else last
