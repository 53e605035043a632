"""The family tree: entries with the same mechanisms as one design, and for each the nearest earlier one.

Nobody's debts are known here. The nearest earlier design is the one whose mechanisms differ least from those of this one, and a
mechanism that it lacks was seen before in others of the catalogue, or is here for the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from anyformer.atlas.holders import family_of, mechanisms_of
from anyformer.atlas.mechanism import Mechanism
from anyformer.catalogue import listing
from anyformer.catalogue.row import Listed


@dataclass(frozen=True)
class Design:
    """Entries of one family with the same mechanisms, of the year of the first of them."""

    entries: tuple[Listed, ...]
    mechanisms: tuple[Mechanism, ...]

    @property
    def year(self) -> int:
        return self.entries[0].year

    @property
    def name(self) -> str:
        """The name of its first entry."""
        return self.entries[0].name


@dataclass(frozen=True)
class GainedMechanism:
    """A mechanism that a design has and its parent has not; `seen`: the nearest earlier design with it, None: first here."""

    mechanism: Mechanism
    seen: Design | None


@dataclass(frozen=True)
class Descent:
    """A design with its parent, the mechanisms it has beside those of the parent, and those of the parent it has not."""

    design: Design
    parent: Design | None
    gained: tuple[GainedMechanism, ...]
    lost: tuple[Mechanism, ...]


def grouped(entries: Iterable[Listed]) -> tuple[Design, ...]:
    """The designs of entries by year, within a year as the catalogue lists them."""
    found: dict[object, list[Listed]] = {}
    for entry in sorted(entries, key=lambda entry: entry.year):
        found.setdefault((family_of(entry), mechanisms_of(entry.name)), []).append(entry)
    return tuple(Design(tuple(own), mechanisms_of(own[0].name)) for own in found.values())


def before(design: Design, others: Sequence[Design]) -> tuple[Design, ...]:
    """The designs that are earlier: of an earlier year, or of the same year and family and listed before it."""
    family, mine = family_of(design.entries[0]), others.index(design)
    return tuple(
        other
        for place, other in enumerate(others)
        if other.year < design.year or (place < mine and other.year == design.year and family_of(other.entries[0]) == family)
    )


def apart(left: Design, right: Design) -> int:
    """The number of mechanisms that one of two designs has and the other has not."""
    return len(set(left.mechanisms) ^ set(right.mechanisms))


def nearest(design: Design, earlier: Sequence[Design]) -> Design | None:
    """The earlier design that differs least: of several one of the same family, then the latest, then the first listed."""
    family = family_of(design.entries[0])
    return min(
        earlier,
        key=lambda other: (apart(design, other), family_of(other.entries[0]) != family, -other.year),
        default=None,
    )


def descent(design: Design, designs: Sequence[Design]) -> Descent:
    """Where a design stands among all of them."""
    earlier = before(design, designs)
    parent = nearest(design, earlier)
    known = () if parent is None else parent.mechanisms
    gained = [each for each in design.mechanisms if each not in known]
    seen = {each: nearest(design, [other for other in earlier if each in other.mechanisms]) for each in gained}
    lost = tuple(each for each in known if each not in design.mechanisms)
    return Descent(design, parent, tuple(GainedMechanism(each, seen[each]) for each in gained), lost)


@cache
def tree() -> tuple[Descent, ...]:
    """Every design of the catalogue with its descent, by year."""
    designs = grouped(listing())
    return tuple(descent(design, designs) for design in designs)
