"""A claim: a sentence, the command that asks about it, what comes of it, and the rule that makes the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from benchmarks.compare import RESULTS

Figures = Mapping[str, Any]
Rule = Callable[[Figures], bool]
How = Literal["counted", "priced", "measured", "from results"]
RESULT = RESULTS / "claims.json"
NOTES = {
    "A": "LLM training notes",
    "B": "Transformer development",
    "C": "CS190C lecture 3",
    "D": "LLM, attention",
}
"""The lecture notes by the letter that a claim cites them with."""


@cache
def result(name: str) -> Any:
    """A committed result file."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


@cache
def computed(figures: Callable[[], Figures]) -> Figures:
    """Several claims may ask about the same figures."""
    return figures()


def never(figures: Figures) -> bool:
    return False


@dataclass(frozen=True)
class Claim:
    """One claim of the notes.

    `figures` computes numbers; `outcome` is their text, `holds` the rule of the verdict. Where `holds` fails and `partly` does
    not, the claim holds under the condition `when`. `outcome`, `when` and `shows` are templates of the figures; the latter is
    what `command` prints of them. `how`: counted from descriptions; priced on an accelerator, which no CPU decides; measured
    on tensors by `python -m benchmarks.claims --write`; or read from the result file of another benchmark.
    """

    name: str
    source: str
    """The letter of the notes and the section: `A 4.2`."""
    sentence: str
    figures: Callable[[], Figures]
    outcome: str
    holds: Rule
    partly: Rule = never
    when: str = ""
    command: str = ""
    shows: tuple[str, ...] = ()
    open: Rule = never
    """Where the figures decide nothing."""
    how: How = "counted"
    file: str = ""
    """The file that a claim from results reads."""

    @property
    def typed(self) -> str:
        """The one command that asks about the claim."""
        return self.command or f"python -m benchmarks.claims {self.name}"

    def known(self) -> Figures:
        """Figures of today; of measured claims those of the committed measurement."""
        if self.how != "measured":
            return computed(self.figures)
        found: Figures = result(RESULT.name)["figures"][self.name]
        return found

    def verdict(self, figures: Figures) -> str:
        if self.open(figures):
            return "cannot tell"
        if self.holds(figures):
            return "holds"
        return f"holds when {self.when.format(**figures)}" if self.partly(figures) else "does not hold"

    def told(self, figures: Figures) -> str:
        """The outcome in words and numbers."""
        return self.outcome.format(**figures)

    def printed(self, figures: Figures) -> tuple[str, ...]:
        """What the command prints."""
        return tuple(text.format(**figures) for text in self.shows)


@dataclass(frozen=True)
class Topic:
    """Claims about one matter, in the order of the page."""

    title: str
    claims: tuple[Claim, ...]
