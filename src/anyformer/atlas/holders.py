"""Which entries have which mechanisms, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from anyformer.atlas.mechanism import EntryFacts, Mechanism, facts_of
from anyformer.atlas.topic import mechanisms
from anyformer.catalogue import architecture, listing
from anyformer.catalogue.columns import columns
from anyformer.catalogue.row import Listed
from anyformer.model import Architecture

Family = tuple[str, str]
"""A lineage of the catalogue and a publisher: models of one line and one house."""


def family_of(entry: Listed) -> Family:
    """The family of an entry, in which sizes and variants of one line count once."""
    return entry.lineage, entry.organisation


def families(entries: Iterable[Listed]) -> tuple[Family, ...]:
    """The families of entries, each once, in their order."""
    return tuple(dict.fromkeys(map(family_of, entries)))


@cache
def facts() -> Mapping[str, EntryFacts]:
    """The facts of every entry of the catalogue, from its description."""
    of_entries = ((entry, architecture(entry.name)) for entry in listing())
    return {entry.name: facts_of(made, entry.columns, entry.training) for entry, made in of_entries}


def had(made: Architecture) -> frozenset[str]:
    """The names of the mechanisms that any description has, but for those of its training."""
    own = facts_of(made, columns(made))
    return frozenset(each.name for each in mechanisms() if own.has(each))


@cache
def mechanisms_of(name: str) -> tuple[Mechanism, ...]:
    """The mechanisms that an entry has, in the order of the topics."""
    own = facts()[name]
    return tuple(each for each in mechanisms() if own.has(each))


@dataclass(frozen=True)
class Holders:
    """The entries that have a mechanism, those of its first year first."""

    entries: tuple[Listed, ...]

    @property
    def families(self) -> tuple[Family, ...]:
        return families(self.entries)

    @property
    def since(self) -> int | None:
        """The first year in which an entry has it; None where none has."""
        return min((entry.year for entry in self.entries), default=None)

    @property
    def first(self) -> tuple[Listed, ...]:
        """The first entries that have it: all of that year, one for each family, since years alone are known."""
        found: dict[Family, Listed] = {}
        for entry in self.entries:
            if entry.year == self.since:
                found.setdefault(family_of(entry), entry)
        return tuple(found.values())


@cache
def holders(mechanism: Mechanism) -> Holders:
    """Who has a mechanism, by year and then as the catalogue lists them."""
    having = [entry for entry in listing() if facts()[entry.name].has(mechanism)]
    return Holders(tuple(sorted(having, key=lambda entry: entry.year)))


def words() -> Iterator[tuple[str, str]]:
    """Every (column, word) of the catalogue."""
    found = ((column, word) for own in facts().values() for column, held in own.columns.items() for word in held)
    return iter(dict.fromkeys(found))
