"""Sentences that say which studies ask about a matter: those that have arms with it beside arms without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from anyformer.atlas.measured import MeasuredFinding, findings, studied_arms, studies
from anyformer.atlas.measured_sources import StudySource, verdict_of
from anyformer.atlas.source import SentenceSource, Verdict

MOST = 3
"""Findings of a study that are told of one matter, at most."""
WORDS = {"holds": "that hold here", "fails": "that do not", "open": "that cannot be told"}


@cache
def asking(what: str) -> tuple[str, ...]:
    """The names of the studies with arms that have a mechanism, or a part of a class, beside arms that have not."""
    return tuple(name for name in studied_arms() if _having(name, what))


def _having(study: str, what: str) -> frozenset[str]:
    """The arms of a study that have it, where not all have."""
    return frozenset(arm.name for arm in studied_arms()[study] if what in arm.mechanisms or what in arm.parts)


@dataclass(frozen=True)
class StudyOf(StudySource):
    """What a study says of `what`, a mechanism or the class of a part: findings that compare an arm with it to one without."""

    name: str
    what: str

    @property
    def says(self) -> str:
        having, told = _having(self.name, self.what), [_line(each) for each in self._findings()]
        arms = f"{studies()[self.name].title} {len(having)} of {len(studied_arms()[self.name])} arms have it."
        more = f"; {len(told) - MOST} more in the report" if len(told) > MOST else ""
        return f"{arms} {'; '.join(told[:MOST])}{more}." if told else f"{arms} No finding compares one of them to one without."

    @property
    def study(self) -> str:
        return self.name

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of all its findings, where it is one."""
        found = {verdict_of(each.here) for each in self._findings()}
        return found.pop() if len(found) == 1 else None

    def _findings(self) -> Iterator[MeasuredFinding]:
        having = _having(self.name, self.what)
        return (each for each in findings() if each.study == self.name and (each.arm in having) != (each.than in having))

    def problem(self) -> str | None:
        return None if self.name in asking(self.what) else f"no study {self.name!r} asks about {self.what}"


@dataclass(frozen=True)
class StudyVerdicts(StudySource):
    """A study in one line: which of some mechanisms its arms differ in, and how many of its findings hold."""

    name: str
    mechanisms: tuple[str, ...]

    @property
    def says(self) -> str:
        found = [verdict_of(each.here) for each in findings() if each.study == self.name]
        told = ", ".join(f"{words}: {found.count(each)}" for each, words in WORDS.items() if each in found)
        own = ", ".join(self.mechanisms)
        return f"{studies()[self.name].title} {f'Arms differ in {own}. ' if own else ''}Findings {told}."

    @property
    def study(self) -> str:
        return self.name

    def problem(self) -> str | None:
        wrong = [each for each in self.mechanisms if self.name not in asking(each)]
        return f"the study {self.name} does not ask about {wrong[0]}" if wrong else None


@dataclass(frozen=True)
class NotAsked(SentenceSource):
    """That no study asks about some matters."""

    kind: ClassVar[str] = "study"
    what: tuple[str, ...]

    @property
    def says(self) -> str:
        return f"No study here asks about {', '.join(self.what)}: none has arms with it beside arms without."

    @property
    def cited(self) -> str:
        return "our studies"

    @property
    def page(self) -> str:
        return "docs/studies/README.md"

    def problem(self) -> str | None:
        asked = [each for each in self.what if asking(each)]
        return f"a study asks about {asked[0]}: {asking(asked[0])[0]}" if asked else None


def studies_of(what: str) -> tuple[SentenceSource, ...]:
    """What studies say of a mechanism or of the class of a part, or that none asks about it."""
    return tuple(StudyOf(name, what) for name in asking(what)) or (NotAsked((what,)),)


def _line(found: MeasuredFinding) -> str:
    """A finding by what was said, between which arms, and what became of it."""
    arms = f"{found.arm} against {found.than}".replace("_", " ")
    at = "" if found.length is None else f" at {found.length:,} positions"
    return f'"{found.said}" ({arms}{at}): {found.here}'
