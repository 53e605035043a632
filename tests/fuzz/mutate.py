"""Seeded mutations of plain data, as it comes out of JSON or TOML: hostile leaves, other types, other sizes, other shapes."""

from __future__ import annotations

import copy
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, -7, 0.0, -0.0, 0.5, 1.0, 2.0, 1.5, -0.25, 1e-300, 1e38, 1e300,
    float("nan"), float("inf"), float("-inf"), 2**16, 10**6, 2**24, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64,
    10**30, 10**400, 10**4000, "", " ", "2", "2.0", "true", "null", "none", "\x00", "ä", "a" * 5000, "../..", "a.b", "*", "a*9",
    "layer*1000000000", "(" * 3000, "silu", ["silu"], [], {}, [[]], [None], [0], [1, 2], {"a": 1}, {"": {}}, {"kind": "x"},
    {"kind": None}, {"rope_type": "yarn"}, {"rope_type": []}, ["full_attention"], [1.5, "a"], [10**30], [{}], [[[[[]]]]],
)  # fmt: skip
"""Values that nobody expects where they come to stand."""

Way = tuple[Any, ...]


def mutated(data: Any, draw: random.Random) -> Any:
    """A copy of `data` with one to three mutations."""
    changed = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        changed = draw.choice(MUTATIONS)(changed, draw) if ways(changed) else changed
    return changed


def ways(data: Any, way: Way = ()) -> list[Way]:
    """The path of every node below the root."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, item in items for found in ((*way, key), *ways(item, (*way, key)))]


def at(data: Any, way: Way) -> Any:
    """What stands at a path."""
    for key in way:
        data = data[key]
    return data


def _put(data: Any, way: Way, value: Any) -> Any:
    at(data, way[:-1])[way[-1]] = value
    return data


def _picked(data: Any, draw: random.Random) -> Way:
    """The path of some node, of a leaf two times out of three."""
    found = ways(data)
    leaves = [way for way in found if not isinstance(at(data, way), dict | list)]
    return draw.choice(leaves if leaves and draw.random() < 2 / 3 else found)


def _hostile(data: Any, draw: random.Random) -> Any:
    way = _picked(data, draw)
    return _put(data, way, copy.deepcopy(draw.choice(HOSTILE)))


def _deleted(data: Any, draw: random.Random) -> Any:
    way = _picked(data, draw)
    del at(data, way[:-1])[way[-1]]
    return data


def _retyped(data: Any, draw: random.Random) -> Any:
    """The same value in another type: 2 -> "2", 2.0, [2], {"2": 2}."""
    way = _picked(data, draw)
    old = at(data, way)
    forms: list[Any] = [str(old), [old], {str(old)[:20]: old}, bool(old), [old] * 3, repr(old), old is None]
    if isinstance(old, int | float):
        forms += [float(old), int(old)] if abs(old) < 1e300 else []
    if isinstance(old, dict):
        forms += [list(old.values()), list(old), [list(item) for item in old.items()]]
    if isinstance(old, list):
        forms += [dict(enumerate(map(str, old))), {str(i): item for i, item in enumerate(old)}]
    return _put(data, way, copy.deepcopy(draw.choice(forms)))


def _scaled(data: Any, draw: random.Random) -> Any:
    """A number turned, stretched or shifted."""
    numbers = [way for way in ways(data) if type(at(data, way)) in (int, float) and abs(at(data, way)) < 1e30]
    if not numbers:
        return data
    way = draw.choice(numbers)
    old = at(data, way)
    return _put(
        data, way, draw.choice((-old, old * 1000, old * 2**31, old * 2**53, old + 1, old - 1, old // 3, old / 7, old * 0))
    )


def _renumbered(data: Any, draw: random.Random) -> Any:
    """Another number of the same type, as somebody might mean it."""
    numbers = [way for way in ways(data) if type(at(data, way)) in (int, float)]
    if not numbers:
        return data
    way = draw.choice(numbers)
    whole = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30, 100, 1000, 4096, 2**20, 2**24, 2**31 - 1)
    real = (0.0, 1e-300, 1e-30, 1e-5, 0.1, 0.5, 0.99, 1.0, 2.0, 100.0, 1e6, 1e30, 1e300)
    return _put(data, way, draw.choice(whole if type(at(data, way)) is int else real))


def _nested(data: Any, draw: random.Random) -> Any:
    """A node inside lists or tables, sometimes very deep."""
    way = _picked(data, draw)
    new = at(data, way)
    for _ in range(draw.choice((1, 1, 2, 200))):
        new = [new] if draw.random() < 0.5 else {"kind": new}
    return _put(data, way, new)


def _duplicated(data: Any, draw: random.Random) -> Any:
    """A node a second time: beside itself in a list, under another name in a table."""
    way = _picked(data, draw)
    holder, item = at(data, way[:-1]), copy.deepcopy(at(data, way))
    if isinstance(holder, list):
        holder.extend([item] * draw.choice((1, 2, 50)))
    else:
        holder[draw.choice((f"{way[-1]}_2", f"{way[-1]}"[:-1], f"{way[-1]}".upper(), "kind", ""))] = item
    return data


def _swapped(data: Any, draw: random.Random) -> Any:
    """What stands at one path put at another."""
    source, target = _picked(data, draw), _picked(data, draw)
    return _put(data, target, copy.deepcopy(at(data, source)))


MUTATIONS = (_hostile, _hostile, _deleted, _retyped, _scaled, _renumbered, _renumbered, _nested, _duplicated, _swapped)
