"""Sentences that say which studies ask about a matter: those that have arms with it beside arms without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from anyformer.atlas.differing import differing, has
from anyformer.atlas.measured import ArmPair, MeasuredFinding, arm_pairs, findings, shared_by_arms, studied_arms, studies
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
    return frozenset(arm.name for arm in studied_arms()[study] if has(arm, what))


def _sharing(what: str) -> tuple[str, ...]:
    """The names of the studies all of whose arms have a mechanism, or a part of a class."""
    return tuple(each.study for each in shared_by_arms() if what in each.mechanisms or what in each.parts)


@dataclass(frozen=True)
class StudyOf(StudySource):
    """What a study says of `what`, a mechanism or the class of a part: findings that compare an arm with it to one without, and
    arms beside the base of which no finding is; those whose arms differ in nothing else come first."""

    name: str
    what: str

    @property
    def says(self) -> str:
        having, told = _having(self.name, self.what), [_line(each, self._others(each)) for each in self._told()]
        arms = f"{studies()[self.name].title} {len(having)} of {len(studied_arms()[self.name])} arms have it."
        more = f"; {len(told) - MOST} more in the report" if len(told) > MOST else ""
        return f"{arms} {'; '.join(told[:MOST])}{more}." if told else f"{arms} No finding compares one of them to one without."

    @property
    def study(self) -> str:
        return self.name

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of all its findings of arms that differ in nothing else, where it is one."""
        found = {verdict_of(each.here) for each in self._findings() if not self._others(each)}
        return found.pop() if len(found) == 1 else None

    def _findings(self) -> Iterator[MeasuredFinding]:
        return (each for each in findings() if each.study == self.name and self._apart(each))

    def _told(self) -> list[MeasuredFinding | ArmPair]:
        found = list(self._findings())
        known = {frozenset((each.arm, each.than)) for each in found}
        pairs = (each for each in arm_pairs() if each.study == self.name and self._apart(each))
        beside = [each for each in pairs if frozenset((each.arm, each.than)) not in known]
        return sorted((*found, *beside), key=lambda each: bool(self._others(each)))

    def _apart(self, each: MeasuredFinding | ArmPair) -> bool:
        having = _having(self.name, self.what)
        return (each.arm in having) != (each.than in having)

    def _others(self, each: MeasuredFinding | ArmPair) -> tuple[str, ...]:
        return differing(self.name, each.arm, each.than, self.what)

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


@dataclass(frozen=True)
class InEveryArm(SentenceSource):
    """That no study asks about a matter which all arms of some studies have."""

    kind: ClassVar[str] = "study"
    what: str

    @property
    def says(self) -> str:
        found = [each for each in shared_by_arms() if each.study in _sharing(self.what)]
        told = "; ".join(
            f"all {each.arms} arms of {each.study} have it, which asks: {studies()[each.study].title}" for each in found[:MOST]
        )
        more = f" So have all of {len(found) - MOST} more studies." if len(found) > MOST else ""
        return f"No study here has arms with {self.what} beside arms without: {told}{more}"

    @property
    def cited(self) -> str:
        return "our studies"

    @property
    def page(self) -> str:
        return "docs/studies/README.md"

    def problem(self) -> str | None:
        if asked := asking(self.what):
            return f"a study asks about {self.what}: {asked[0]}"
        return None if _sharing(self.what) else f"no study has {self.what} in all arms"


def studies_of(what: str) -> tuple[SentenceSource, ...]:
    """What studies say of a mechanism or of the class of a part, or that none asks about it."""
    if found := asking(what):
        return tuple(StudyOf(name, what) for name in found)
    return (InEveryArm(what) if _sharing(what) else NotAsked((what,)),)


def _line(found: MeasuredFinding | ArmPair, others: tuple[str, ...]) -> str:
    """A finding by what was said, between which arms, what else they differ in, and what became of it."""
    more = f", and {len(others) - MOST} more" if len(others) > MOST else ""
    beside = f"; differs in other things too: {', '.join(others[:MOST])}{more}" if others else ""
    arms = f"{found.arm} against {found.than}".replace("_", " ")
    if isinstance(found, ArmPair):
        return f"{arms}{f' ({beside[2:]})' if beside else ''}: {found.here}"
    at = "" if found.length is None else f" at {found.length:,} positions"
    return f'"{found.said}" ({arms}{at}{beside}): {found.here}'
