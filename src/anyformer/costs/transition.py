"""Architectures on the way from one to another: some of the values that differ taken over, while what follows of others keeps
a value of either end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from anyformer.describe import DescriptionError, PartSet, change_all
from anyformer.describe.path import Key, differences, item_at
from anyformer.describe.value import as_data
from anyformer.model import Architecture

Keys = tuple[Key, ...]
Pins = Mapping[Keys, Any]
"""Values that are written out at their places, where they would follow of others."""


@dataclass(frozen=True)
class Transition:
    """From one architecture `start` to another, `to`."""

    start: Architecture
    to: Architecture

    @cached_property
    def resolved(self) -> tuple[Architecture, Architecture]:
        """Both ends with a number for whatever follows of other values."""
        return self.start.resolved(), self.to.resolved()

    @cached_property
    def changes(self) -> tuple[tuple[Keys, ...], ...]:
        """The changes that lead from one end to the other, by their places: a value that changes alike in several is one.

        A table of names, such as the variants of a stack, changes as a whole where it has not yet all names of the other end.
        What follows of other values in the same way at both ends changes with these.
        """
        found = [(keys, *pair) for keys, *pair in differences(*self.resolved) if keys not in self._following]
        new = dict.fromkeys(keys[:-1] for keys, *_ in found if self._is_new(keys))
        tables = [table for table in new if not within(table[:-1], new)]
        alike: dict[tuple[Key, str, str], list[Keys]] = {}
        for keys, left, right in found:
            if not within(keys, tables):
                alike.setdefault((keys[-1], repr(left), repr(right)), []).append(keys)
        return (*((table,) for table in tables), *map(tuple, alike.values()))

    def taking(self, changes: Collection[int], before: Architecture) -> Architecture:
        """The start with some changes, by number. What follows of other values is as in `before`, or as at the end if that is
        what follows; where it would be neither, it is written out. Raises `DescriptionError` where that is not valid.

        `before`: such an architecture with fewer changes, all values resolved.
        """
        taken = [keys for number in sorted(changes) for keys in self.changes[number]]
        try:
            return self._settled(taken, before, {})
        except DescriptionError:
            return self._loosened(taken, before, self._written_out(taken, before))

    def _written_out(self, taken: Sequence[Keys], before: Architecture) -> Pins:
        """All that follows of others, as it should be if nothing follows."""
        inside = {keys: item_at(self.resolved[1], keys) for keys in self._derived[1] if within(keys, taken)}
        return inside | {keys: item_at(before, keys) for keys in self._derived[0] if not within(keys, taken)}

    def _loosened(self, taken: Sequence[Keys], before: Architecture, pins: Pins) -> Architecture:
        """The architecture with values written out where it is not valid without; those that can follow do, field by field."""
        made = self._settled(taken, before, pins)
        for name in sorted({str(keys[-1]) for keys in pins}):
            fewer = {keys: item for keys, item in pins.items() if keys[-1] != name}
            try:
                made, pins = self._settled(taken, before, fewer), fewer
            except DescriptionError:
                continue
        return made

    def _settled(self, taken: Sequence[Keys], before: Architecture, pins: Pins) -> Architecture:
        """The architecture with more and more values written out until all are as they should be."""
        while True:
            made = self._made(taken, pins)
            astray = dict(self._astray(made.resolved(), taken, before))
            if not astray:
                return made
            if all(pins.get(keys) == value for keys, value in astray.items()):
                raise DescriptionError(f"{'.'.join(map(str, next(iter(astray))))}: follows of other values, and cannot be held")
            pins = {**pins, **astray}

    def _made(self, taken: Sequence[Keys], pins: Pins) -> Architecture:
        inside = {_full(keys): as_data(item) for keys, item in pins.items() if within(keys, taken)}
        outside = {_full(keys): as_data(item) for keys, item in pins.items() if not within(keys, taken)}
        to = change_all(self.to, inside) if inside else self.to
        return change_all(self.start, outside | {_full(keys): as_data(item_at(to, keys)) for keys in taken})

    def _astray(self, made: Architecture, taken: Sequence[Keys], before: Architecture) -> Iterator[tuple[Keys, Any]]:
        """Places of a resolved architecture with a value that they should not have, and the value that they should."""
        end = self.resolved[1]
        for keys in taken:
            for place, _, wanted in differences(item_at(made, keys), item_at(end, keys), keys):
                yield place, wanted
        for keys, stood, now in differences(before, made):
            arrived = keys in self._following and now == item_at(end, keys)
            if not arrived and not within(keys, taken):
                yield keys, stood

    @cached_property
    def _derived(self) -> tuple[frozenset[Keys], frozenset[Keys]]:
        """The places of both ends at which a value follows of others."""
        left, right = self.resolved
        return _places(self.start, left), _places(self.to, right)

    @cached_property
    def _following(self) -> frozenset[Keys]:
        """The places at which a value follows of others by the same rule at both ends."""
        both = self._derived[0] & self._derived[1]
        return frozenset(keys for keys in both if item_at(self.start, keys) == item_at(self.to, keys))

    def _is_new(self, keys: Keys) -> bool:
        """Whether the last key is a name that a table of the start does not have; a part has all its slots."""
        table = item_at(self.start, keys[:-1])
        return isinstance(table, Mapping) and not isinstance(table, PartSet) and keys[-1] not in table


def _places(one: Architecture, other: Architecture) -> frozenset[Keys]:
    """The places at which two architectures differ."""
    return frozenset(keys for keys, *_ in differences(one, other))


def within(keys: Keys, places: Collection[Keys]) -> bool:
    """Whether some keys lead to one of the places, or into it."""
    return any(keys[: len(place)] == place for place in places)


def _full(keys: Keys) -> str:
    """The path to some keys, nothing left out."""
    return ".".join(map(str, keys))
