"""A few architectures that together have every mechanism of many: what expensive tests ask, the rest being `slow`.

Computed, so that a part that is added is asked without a list being kept: its architecture has what no other has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, wraps
from itertools import combinations, product
from typing import Any

import pytest

import effort
from anyformer.describe import Value
from anyformer.model import Architecture
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.indexer import KeyChoice
from anyformer.parts.attention.slots import Remembered
from anyformer.parts.masks.mask import Mask
from anyformer.parts.sublayer import Sublayer

Mechanism = tuple[str, ...]
"""A kind of description, one of its fields and what it holds; or a kind alone."""
Of = Callable[[Any], frozenset[Any]]
"""What a cover has every one of: of architectures `mechanisms` or, for what depends on kinds alone, `kinds`."""


def moved(value: Any) -> Iterator[tuple[type[Value], str, Any]]:
    """(class, "", None) of every value in a description, and (class, field, held) of its fields that are not at defaults."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if isinstance(value, Value):
            yield kind, "", None
            for name, default in _defaults(kind):
                inner = getattr(value, name)
                if inner is not default and inner != default:
                    yield kind, name, inner
                if type(inner) not in ATOMS:
                    waiting.append(inner)
        elif kind is tuple:
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()


ATOMS = frozenset({str, bool, int, float, type(None)})
"""Types of what no description stands in."""


@cache
def _defaults(kind: type[Value]) -> tuple[tuple[str, Any], ...]:
    """Every field of a class and its default."""
    fields = kind.model_fields.items()
    return tuple((name, field.get_default(call_default_factory=True)) for name, field in fields)


def _once(of: Of) -> Of:
    """The same, remembered by identity: to hash a description takes as long as to look through it."""
    known = dict[int, tuple[Any, frozenset[Any]]]()

    @wraps(of)
    def remembered(architecture: Any) -> frozenset[Any]:
        if id(architecture) not in known:
            known[id(architecture)] = architecture, of(architecture)  # which is kept, so that no other gets its identity
        return known[id(architecture)][1]

    return remembered


@_once
def mechanisms(architecture: Architecture) -> frozenset[Mechanism]:
    """Every kind in a description, and every field that is not at its default: with what it holds."""
    return frozenset(
        (kind.__name__, name, held(inner)) if name else (kind.__name__,) for kind, name, inner in moved(architecture)
    )


@_once
def kinds(architecture: Architecture) -> frozenset[Mechanism]:
    """Every kind in a description."""
    return frozenset(mechanism for mechanism in mechanisms(architecture) if len(mechanism) == 1)


@cache
def kinds_of(*families: type[Value]) -> Of:
    """`Of` kinds of some families of parts alone, for what depends on no others."""

    @_once
    def of(architecture: Architecture) -> frozenset[Mechanism]:
        return frozenset((kind.__name__,) for kind, name, _ in moved(architecture) if not name and issubclass(kind, families))

    return of


remembering = kinds_of(Sublayer, Mask, Remembered, KeyChoice, BlockChoice)
"""What the kind of a decode state depends on: what mixes positions, which it sees, and which it chooses."""


@cache
def fields_in(*rooms: str) -> Of:
    """`Of` all kinds, and of parts in some rooms of `parts` alone the fields that are not at defaults, with what they hold."""
    places = tuple(f"anyformer.parts.{room}." for room in rooms)

    @_once
    def of(architecture: Architecture) -> frozenset[Mechanism]:
        return frozenset(
            (kind.__name__, name, held(inner)) if name else (kind.__name__,)
            for kind, name, inner in moved(architecture)
            if not name or kind.__module__.startswith(places)
        )

    return of


def held(value: Any) -> str:
    """What a field holds, without what is only another number or another name."""
    if isinstance(value, Value):
        return type(value).__name__
    return str(value) if isinstance(value, bool | str | None) else type(value).__name__


def cover(architectures: Mapping[str, Any], of: Of = mechanisms) -> frozenset[str]:
    """Names of a few architectures that have every mechanism of all: each next one has the most that are missing, and is the
    smallest of those that have as many."""
    key = of, tuple((name, id(each)) for name, each in architectures.items())
    if key not in _covers:
        _covers[key] = dict(architectures), _cover(architectures, of)
    return _covers[key][1]


_covers: dict[Any, tuple[Mapping[str, Any], frozenset[str]]] = {}
"""Many files ask for the cover of the same zoo; what is covered is kept, so that nothing else gets its identity."""


def _cover(architectures: Mapping[str, Any], of: Of) -> frozenset[str]:
    having = {name: of(each) for name, each in architectures.items()}
    size = {name: _size(each) for name, each in architectures.items()}
    missing = frozenset[Mechanism]().union(*having.values())
    chosen = set()
    while missing:
        best = max(having, key=lambda name: (len(having[name]), -size[name]))
        chosen.add(best)
        found = having[best]
        missing -= found
        having = {name: rest for name, each in having.items() if (rest := each - found)}
    return frozenset(chosen)


def _size(described: Any) -> int:
    """How long a description takes to compute, as far as it tells: its parts, in each of its layers; 0 of what has no parts."""
    parts = sum(not name for _, name, _ in moved(described))
    layers = sum(len(stack.layers) for stack in described.stacks.values()) if isinstance(described, Architecture) else 1
    return parts * max(1, layers)


def others_slow(architectures: Mapping[str, Architecture], of: Of = mechanisms) -> list[Any]:
    """The names as parameters of a test: all, of which those outside the cover are `slow`."""
    return but_slow(architectures, cover(architectures, of))


def covering(*axes: Iterable[Any], together: int = 2) -> set[tuple[Any, ...]]:
    """A few rows of the product of some axes in which every `together` values of different axes meet.

    Values are chosen evenly: with `together=1` each value of the longest axis comes once, those of the others by turns.
    """
    values = [list(axis) for axis in axes]
    rows = list(product(*(range(len(axis)) for axis in values)))
    meetings = {row: frozenset(combinations(enumerate(row), together)) for row in rows}
    missing, used, chosen = frozenset[Any]().union(*meetings.values()), Counter[tuple[int, int]](), set()
    while missing:
        best = max(rows, key=lambda row: (len(meetings[row] & missing), -sum(used[each] for each in enumerate(row))))
        chosen.add(tuple(axis[at] for axis, at in zip(values, best, strict=True)))
        missing -= meetings[best]
        used.update(enumerate(best))
    return chosen


def rest_slow(rows: Iterable[tuple[Any, ...]], asked: Collection[tuple[Any, ...]]) -> list[Any]:
    """The rows as parameters of a test: all, of which those that are not `asked` in each run are `slow`."""
    return [
        pytest.param(*row, marks=() if row in asked else pytest.mark.slow) for row in rows if effort.slow_too or row in asked
    ]


def but_slow(names: Iterable[str], asked: Collection[str]) -> list[Any]:
    """The same of a single parameter."""
    return [
        name if name in asked else pytest.param(name, marks=pytest.mark.slow)
        for name in names
        if effort.slow_too or name in asked
    ]
