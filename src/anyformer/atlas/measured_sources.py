"""Sentences from what was measured: findings and budgets of studies, and claims of lecture notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from anyformer.atlas.measured import findings, notes_claims, studies
from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.source import SentenceSource, Verdict


def verdict_of(words: str) -> Verdict:
    """The verdict that begins some words: `holds when ...`, `does not hold here: ...`, `cannot tell`."""
    return "holds" if words.startswith("holds") else "fails" if words.startswith("does not hold") else "open"


class StudySource(SentenceSource):
    """The base of sentences from a study: its name, its command and its report."""

    kind: ClassVar[str] = "study"

    @property
    def study(self) -> str:
        """The name of the study."""
        raise NotImplementedError

    @property
    def cited(self) -> str:
        return f"our study {self.study}"

    @property
    def command(self) -> str:
        return f"anyformer compare recipes/studies/{self.study}.toml --out runs/{self.study}"

    @property
    def page(self) -> str:
        return f"docs/studies/{self.study}/report.md"


@dataclass(frozen=True)
class StudyFinding(StudySource):
    """The number of a finding among all of those that studies were asked for."""

    number: int

    @property
    def says(self) -> str:
        return findings()[self.number].sentence

    @property
    def study(self) -> str:
        return findings()[self.number].study

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        return papers(findings()[self.number].papers)

    @property
    def verdict(self) -> Verdict:
        return verdict_of(findings()[self.number].here)

    def problem(self) -> str | None:
        count = len(findings())
        return None if 0 <= self.number < count else f"there are {count} findings, and none has the number {self.number}"


@dataclass(frozen=True)
class StudyBudget(StudySource):
    """A study: what every trial of it was; or with `beyond`, which of its arms hold beyond the trained length."""

    name: str
    beyond: bool = False

    @property
    def says(self) -> str:
        return studies()[self.name].answer if self.beyond else studies()[self.name].sentence

    @property
    def study(self) -> str:
        return self.name

    def problem(self) -> str | None:
        if self.name not in studies():
            return f"no study is called {self.name!r}"
        return f"the study {self.name} has one length" if self.beyond and not studies()[self.name].lengths else None


@dataclass(frozen=True)
class StudyNote(StudySource):
    """What a reader should know of the question that a study answers."""

    name: str

    @property
    def says(self) -> str:
        return studies()[self.name].note

    @property
    def study(self) -> str:
        return self.name

    @property
    def page(self) -> str:
        return "docs/studies/README.md"

    def problem(self) -> str | None:
        if self.name not in studies():
            return f"no study is called {self.name!r}"
        return None if studies()[self.name].note else f"nothing is noted of the question of the study {self.name}"


@dataclass(frozen=True)
class ClaimSource(SentenceSource):
    """A claim of lecture notes, tested here."""

    kind: ClassVar[str] = "claim"
    name: str

    @property
    def says(self) -> str:
        return notes_claims()[self.name].sentence

    @property
    def cited(self) -> str:
        return f"a claim of lecture notes, {notes_claims()[self.name].source}"

    @property
    def command(self) -> str:
        return notes_claims()[self.name].typed

    @property
    def page(self) -> str:
        return "docs/reference/claims.md"

    @property
    def verdict(self) -> Verdict:
        return verdict_of(notes_claims()[self.name].verdict)

    def problem(self) -> str | None:
        return None if self.name in notes_claims() else f"no claim is called {self.name!r}"
