"""Trends: of the families with a new entry in a year, how many have a mechanism."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anyformer.atlas.holders import facts, families
from anyformer.atlas.mechanism import Mechanism
from anyformer.atlas.topic import mechanisms
from anyformer.catalogue.row import Listed


@dataclass(frozen=True)
class TrendYear:
    """`having` of the `families` with an entry of this year have one with the mechanism; sizes of a line count once."""

    year: int
    having: int
    families: int

    @property
    def share(self) -> float:
        return self.having / self.families


@dataclass(frozen=True)
class Trend:
    """A mechanism over the years in which the catalogue has entries."""

    mechanism: Mechanism
    years: tuple[TrendYear, ...]


def trend(mechanism: Mechanism, entries: Iterable[Listed]) -> Trend:
    """The trend of a mechanism among entries."""
    by_year: dict[int, list[Listed]] = {}
    for entry in entries:
        by_year.setdefault(entry.year, []).append(entry)
    own = facts()
    years = [
        TrendYear(year, len(families(entry for entry in found if own[entry.name].has(mechanism))), len(families(found)))
        for year, found in sorted(by_year.items())
    ]
    return Trend(mechanism, tuple(years))


def trends(entries: Iterable[Listed]) -> tuple[Trend, ...]:
    """The trends of all mechanisms that are drawn."""
    found = tuple(entries)
    return tuple(trend(each, found) for each in mechanisms() if each.trend)
