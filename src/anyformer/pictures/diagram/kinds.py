"""Kinds of layers that look alike; a stack as sections in series, in which one kind repeats or several take turns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

from anyformer.pictures.diagram.text import UNBROKEN

L = TypeVar("L", bound=Hashable)
MANY = 3
"""Kinds of a stack above which kinds that differ in numbers alone are drawn as one, each number as a range."""
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True)
class LayerKind(Generic[L]):
    """Variants that are drawn alike: their names and their look."""

    names: tuple[str, ...]
    look: L
    shared: bool = False
    """Whether all layers of each of its variants share one set of weights."""

    @property
    def name(self) -> str:
        """`local`, or `latent_0 … latent_5`."""
        return ", ".join(self.names) if len(self.names) < 3 else f"{self.names[0]} … {self.names[-1]}"


@dataclass(frozen=True)
class LayerSection(Generic[L]):
    """Neighbouring layers: the number of the first, from 0, the kinds, and the kind of each layer."""

    first: int
    kinds: tuple[LayerKind[L], ...]
    layers: tuple[int, ...]

    @property
    def pattern(self) -> str:
        """`× 32`; for several kinds `(5 local, 1 global) × 10, then 2 local`, or counts of each where nothing repeats."""
        if len(self.kinds) == 1:
            return f"× {len(self.layers)}"
        period = _period(self.layers)
        if period is None:
            counts = Counter(self.layers)
            return ", ".join(f"{counts[i]} {kind.name}" for i, kind in enumerate(self.kinds))
        times, rest = divmod(len(self.layers), period)
        repeated = f"({self._runs(self.layers[:period])}) × {times}"
        return f"{repeated}, then {self._runs(self.layers[-rest:])}" if rest else repeated

    def _runs(self, layers: Sequence[int]) -> str:
        return ", ".join(f"{len(list(run))} {self.kinds[i].name}" for i, run in groupby(layers))


def sections(layers: Sequence[str], looks: Mapping[str, L], shared: Iterable[str] = ()) -> tuple[LayerSection[L], ...]:
    """The sections of a stack: kinds whose layers are interleaved share one, each other kind has its own."""
    kinds = _kinds(layers, looks, frozenset(shared))
    number = {name: i for i, kind in enumerate(kinds) for name in kind.names}
    order = [number[name] for name in layers]
    last = {kind: i for i, kind in enumerate(order)}
    made, start, end = [], 0, 0
    for i, kind in enumerate(order):
        end = max(end, last[kind])
        if i == end:
            own = list(dict.fromkeys(order[start : i + 1]))
            made.append(LayerSection(start, tuple(kinds[k] for k in own), tuple(map(own.index, order[start : i + 1]))))
            start = i + 1
    return tuple(made)


def _kinds(layers: Sequence[str], looks: Mapping[str, L], shared: frozenset[str]) -> list[LayerKind[L]]:
    """The kinds of a stack, in the order in which they first come."""
    names = list(dict.fromkeys(layers))
    alike = _grouped(names, lambda name: looks[name])
    if len(alike) > MANY:
        alike = _grouped(names, lambda name: blurred(looks[name]))
    return [LayerKind(tuple(group), ranged([looks[name] for name in group]), shared.issuperset(group)) for group in alike]


def _grouped(names: Iterable[str], by: Any) -> list[list[str]]:
    groups: dict[Any, list[str]] = {}
    for name in names:
        groups.setdefault(by(name), []).append(name)
    return list(groups.values())


def _period(layers: Sequence[int]) -> int | None:
    """The length of the shortest pattern that repeats at least once over all layers; None where nothing repeats."""
    periods = range(1, len(layers) // 2 + 1)
    return next((p for p in periods if all(a == b for a, b in zip(layers, layers[p:], strict=False))), None)


def blurred(look: Any) -> Any:
    """`look` without its numbers."""
    if isinstance(look, str):
        return _NUMBER.sub("#", look)
    if isinstance(look, tuple):
        return tuple(map(blurred, look))
    if is_dataclass(look):
        return type(look).__name__, *(blurred(getattr(look, field.name)) for field in fields(look))
    return "#" if type(look) is int else look


def ranged(looks: Sequence[Any]) -> Any:
    """One look for looks that are equal but for numbers, with ranges where they differ: `decay 0.1 … 1`."""
    first = looks[0]
    if all(look == first for look in looks):
        return first
    if isinstance(first, str):
        numbers = iter([_range(texts) for texts in zip(*map(_NUMBER.findall, looks), strict=True)])
        return _NUMBER.sub(lambda _: next(numbers), first)
    if isinstance(first, tuple):
        return tuple(ranged(items) for items in zip(*looks, strict=True))
    if is_dataclass(first):
        made = {field.name: ranged([getattr(look, field.name) for look in looks]) for field in fields(first)}
        return type(first)(**made)  # type: ignore[misc]
    return max(looks)


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(set(numbers), key=lambda text: float(text.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}{UNBROKEN}…{UNBROKEN}{ordered[-1]}"
