"""Where the sentences of the atlas come from: a sentence says what its source does, and a source that is not there says so."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

from anyformer.atlas.holders import family_of, holders
from anyformer.atlas.measured import findings, notes_claims, studies
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.topic import mechanisms
from anyformer.catalogue import listed, listing
from anyformer.describe.docstrings import field_docstrings

FIRST = 3
"""Names of the first entries that a sentence gives at most."""


Verdict = Literal["holds", "fails", "open"]


def verdict_of(words: str) -> Verdict:
    """The verdict that begins some words: `holds when ...`, `does not hold here: ...`, `cannot tell`."""
    return "holds" if words.startswith("holds") else "fails" if words.startswith("does not hold") else "open"


@dataclass(frozen=True)
class SentenceSource:
    """The base of sources. `says`: the sentence that it stands for; `problem`: why it stands for none."""

    kind: ClassVar[str]

    @property
    def says(self) -> str:
        """The sentence."""
        raise NotImplementedError

    @property
    def cited(self) -> str:
        """What a reader is told that the sentence comes from."""
        raise NotImplementedError

    @property
    def command(self) -> str:
        """What one types to see the same; empty where a page is all there is."""
        return ""

    @property
    def page(self) -> str:
        """The file of the repository that holds it; empty of what is computed."""
        return ""

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        """The papers that it names."""
        return ()

    @property
    def verdict(self) -> Verdict | None:
        """What became of what it says, where that was tested."""
        return None

    def problem(self) -> str | None:
        """Why it does not resolve; None if it does."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page, and its source."""

    text: str
    source: SentenceSource

    @classmethod
    def of(cls, source: SentenceSource) -> Sentence:
        """What a source says."""
        return cls(source.says, source)

    def problem(self) -> str | None:
        """Why nothing stands behind it; None if its source is there and says just this."""
        if found := self.source.problem():
            return found
        return None if self.source.says == self.text else f"{self.source.cited} does not say {self.text!r}"


@cache
def documented() -> Mapping[str, Any]:
    """What has documentation of its own, by its name: parts, and the functions that put them together. None needs torch."""
    import anyformer.model as model
    import anyformer.parts as parts
    from anyformer.describe import Value
    from anyformer.describe.value import subclasses

    classes = {each.__name__: each for each in subclasses(Value) if each.__module__.startswith(f"{parts.__name__}.")}
    made = {name: item for room in (model, parts) for name, item in vars(room).items() if inspect.isfunction(item)}
    return {**made, **classes}


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring on one line, and the formula that stands indented below it."""
    first, *rest = inspect.cleandoc(text).split("\n\n")
    formula = rest[0] if rest and rest[0].startswith(" ") else ""
    lines = [line.strip() for line in formula.splitlines()]
    return " ".join([*first.split(), "; ".join(lines)]).strip()


@dataclass(frozen=True)
class Documentation(SentenceSource):
    """The documentation of a part or of one of its fields: the first paragraph, and the papers of the whole."""

    kind: ClassVar[str] = "documentation"
    part: str
    field: str = ""

    @property
    def says(self) -> str:
        return first_paragraph(self._text())

    @property
    def cited(self) -> str:
        return f"{self.part}.{self.field}" if self.field else self.part

    @property
    def page(self) -> str:
        module: str = documented()[self.part].__module__
        return f"src/{module.replace('.', '/')}.py"

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        return papers(self._text())

    def problem(self) -> str | None:
        if self.part not in documented():
            return f"no part is called {self.part!r}"
        return None if self._text() else f"{self.cited} has no documentation"

    def _text(self) -> str:
        found = documented()[self.part]
        return field_docstrings(found).get(self.field, "") if self.field else inspect.getdoc(found) or ""


@dataclass(frozen=True)
class CatalogueQuery(SentenceSource):
    """The entries of the catalogue that have a mechanism: how many, and since when."""

    kind: ClassVar[str] = "catalogue"
    mechanism: Mechanism

    @property
    def says(self) -> str:
        found = holders(self.mechanism)
        models = f"{len(found.entries):,} of {len(listing()):,} models"
        lines = f"{len(found.families):,} of {_all_families():,} families"
        names = [entry.name for entry in found.first]
        more = f" and {len(names) - FIRST} more" if len(names) > FIRST else ""
        return f"In {models}, of {lines}; first here in {found.since}: {', '.join(names[:FIRST])}{more}."

    @property
    def cited(self) -> str:
        return f"the catalogue, {self.mechanism.query}"

    def problem(self) -> str | None:
        if self.mechanism not in mechanisms():
            return f"no topic has the mechanism {self.mechanism.name!r}"
        return None if holders(self.mechanism).entries else f"no entry of the catalogue has {self.mechanism.query}"


@dataclass(frozen=True)
class EntrySource(SentenceSource):
    """An entry of the catalogue: its summary, and where its numbers come from."""

    kind: ClassVar[str] = "entry"
    name: str

    @property
    def says(self) -> str:
        entry = listed(self.name)
        assert entry is not None
        return f"{entry.name} ({entry.organisation} {entry.year}): {entry.summary}."

    @property
    def cited(self) -> str:
        entry = listed(self.name)
        return self.name if entry is None else f"{self.name}: {entry.source}"

    @property
    def command(self) -> str:
        return f"anyformer show {self.name}"

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        entry = listed(self.name)
        return () if entry is None else papers(entry.source)

    def problem(self) -> str | None:
        return None if listed(self.name) else f"no entry of the catalogue is called {self.name!r}"


@dataclass(frozen=True)
class StudyFinding(SentenceSource):
    """The number of a finding among all of those that studies were asked for."""

    kind: ClassVar[str] = "study"
    number: int

    @property
    def says(self) -> str:
        return findings()[self.number].sentence

    @property
    def cited(self) -> str:
        return f"our study {findings()[self.number].study}"

    @property
    def command(self) -> str:
        study = findings()[self.number].study
        return f"anyformer compare recipes/studies/{study}.toml --out runs/{study}"

    @property
    def page(self) -> str:
        return f"docs/studies/{findings()[self.number].study}/report.md"

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
class StudyBudget(SentenceSource):
    """A study: what every trial of it was; or with `beyond`, which of its arms hold beyond the trained length."""

    kind: ClassVar[str] = "study"
    name: str
    beyond: bool = False

    @property
    def says(self) -> str:
        return studies()[self.name].answer if self.beyond else studies()[self.name].sentence

    @property
    def cited(self) -> str:
        return f"our study {self.name}"

    @property
    def command(self) -> str:
        return f"anyformer compare recipes/studies/{self.name}.toml --out runs/{self.name}"

    @property
    def page(self) -> str:
        return f"docs/studies/{self.name}/report.md"

    def problem(self) -> str | None:
        if self.name not in studies():
            return f"no study is called {self.name!r}"
        return f"the study {self.name} has one length" if self.beyond and not studies()[self.name].lengths else None


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
        return f"a claim of the notes, {notes_claims()[self.name].source}"

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


def problems(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """What is wrong with some sentences."""
    return tuple(found for each in sentences if (found := each.problem()) is not None)


@cache
def _all_families() -> int:
    return len({family_of(entry) for entry in listing()})
