"""Sentences from the catalogue: how many entries have a mechanism, since when; and an entry itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from anyformer.atlas.holders import facts, family_of, holders
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.source import SentenceSource
from anyformer.atlas.topic import mechanisms
from anyformer.atlas.trends import Trend, trends
from anyformer.catalogue import listed, listing

FIRST = 3
"""Names of the first entries that a sentence gives at most."""
FILTERS: Mapping[str, tuple[str, ...]] = {
    "shape": ("shape",), "norm": ("norm", "placement"), "position": ("position",), "activation": ("activation",),
    "attention": ("attention", "window"),
}  # fmt: skip
"""Filters of `anyformer list`, and the columns whose words they look among."""


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

    @property
    def command(self) -> str:
        """The list of just these entries: by a filter, where what it looks for stands in no other word, else by name."""
        column, word = self.mechanism.column, self.mechanism.word.lower()
        return next(
            (
                f"anyformer list --{option} {shlex.quote(word)}"
                for option, columns in FILTERS.items()
                if column in columns and [each for each in _words(columns) if word in each] == [word]
            ),
            f'anyformer list --has "{self.mechanism.name}"',
        )

    def problem(self) -> str | None:
        if self.mechanism not in mechanisms():
            return f"no topic has the mechanism {self.mechanism.name!r}"
        return None if holders(self.mechanism).entries else f"no entry of the catalogue has {self.mechanism.query}"


@dataclass(frozen=True)
class LatestShares(SentenceSource):
    """Of the families with a new entry in the latest year, how many have which mechanisms of a topic, most first."""

    kind: ClassVar[str] = "catalogue"
    topic: str

    @property
    def says(self) -> str:
        latest = sorted(((each.years[-1], each.mechanism) for each in self._trends()), key=lambda pair: -pair[0].having)
        (year, first), *others = latest
        told = "".join(f", {each.having} with {mechanism.name}" for each, mechanism in others)
        having = f"{year.having} have one with {first.name}{told}"
        return f"Of the {year.families} families with a new model in {year.year}, {having}."

    @property
    def cited(self) -> str:
        return "the catalogue, trends"

    @property
    def command(self) -> str:
        return "anyformer atlas"

    def problem(self) -> str | None:
        return None if self._trends() else f"no trend is of the topic {self.topic!r}"

    def _trends(self) -> tuple[Trend, ...]:
        return tuple(each for each in trends(listing()) if each.mechanism.topic == self.topic)


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


@cache
def _words(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The distinct words of some columns, in small letters."""
    found = (word.lower() for each in facts().values() for column in columns for word in each.columns[column])
    return tuple(dict.fromkeys(found))


@cache
def _all_families() -> int:
    return len({family_of(entry) for entry in listing()})
