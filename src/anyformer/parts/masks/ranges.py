"""Key ranges of a mask in closed form: counted and combined without ever writing a (T, S) matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Progression:
    """For each of T queries the keys k with start <= k < stop and (k - phase) mod step < run.

    `start`, `stop`, `phase` are (T,); `step` and `run` are numbers, both 1 for a plain range.
    """

    start: Integers
    stop: Integers
    phase: Integers
    step: int = 1
    run: int = 1

    @property
    def plain(self) -> bool:
        """Whether it holds every key between start and stop."""
        return self.run >= self.step

    def counts(self) -> Integers:
        """The number of keys of each query, (T,)."""
        return np.where(self.stop > self.start, self._below(self.stop) - self._below(self.start), 0)

    def _below(self, end: Integers) -> Integers:
        """The number of members between the phase and `end`, negative if the end lies before it."""
        whole, rest = np.divmod(end - self.phase, self.step)
        return whole * self.run + np.minimum(rest, self.run)

    def within(self, start: Integers, stop: Integers) -> Progression:
        """Its keys between other bounds."""
        return Progression(np.maximum(self.start, start), np.minimum(self.stop, stop), self.phase, self.step, self.run)

    def singles(self) -> list[Progression]:
        """Its keys as disjoint progressions with a run of 1."""
        return [Progression(self.start, self.stop, self.phase + i, self.step) for i in range(self.run)]


def _meet(a: Progression, b: Progression) -> list[Progression]:
    """The common keys, as disjoint progressions."""
    if a.plain:
        return [b.within(a.start, a.stop)]
    if b.plain:
        return [a.within(b.start, b.stop)]
    if a.step == b.step and not ((a.phase - b.phase) % a.step).any():
        narrow, wide = (a, b) if a.run <= b.run else (b, a)
        return [narrow.within(wide.start, wide.stop)]
    return [_congruent(x, y) for x, y in product(a.singles(), b.singles())]


def _congruent(a: Progression, b: Progression) -> Progression:
    """The common keys of two runs of 1, by the Chinese remainder theorem; none in rows whose phases never agree."""
    common, step = gcd(a.step, b.step), lcm(a.step, b.step)
    gap = b.phase - a.phase
    times = (gap // common) * pow(a.step // common, -1, b.step // common) % (b.step // common)
    start, stop = np.maximum(a.start, b.start), np.minimum(a.stop, b.stop)
    return Progression(start, np.where(gap % common == 0, stop, start), a.phase + a.step * times, step)


@dataclass(frozen=True)
class Ranges:
    """The keys of each query, a union of progressions, which may overlap. Closed under `&` and `|`.

    `edges`: the positions (T,) between which each mask's keys lie, before they are cut to the keys of the row: the number of
    keys of a query grows linearly until one edge crosses another (`pairs.py`).
    """

    parts: tuple[Progression, ...]
    edges: tuple[Integers, ...] = ()

    @staticmethod
    def plain(start: Integers, stop: Integers, keys: int) -> Ranges:
        """start <= k < stop, of the keys 0 ... keys - 1."""
        first, last = np.clip(start, 0, keys), np.clip(stop, 0, keys)
        return Ranges((Progression(first, last, np.zeros_like(first)),), (start, stop))

    @staticmethod
    def strided(keys: int, phase: Integers, step: int, run: int = 1) -> Ranges:
        """All keys k with (k - phase) mod step < run, 0 <= phase < step."""
        part = Progression(np.zeros_like(phase), np.full_like(phase, keys), phase, step, run)
        return Ranges((part,), (phase - step, phase - step + run, phase, phase + run))

    def __and__(self, other: Ranges) -> Ranges:
        met = _alive(both for a, b in product(self.parts, other.parts) for both in _meet(a, b))
        return Ranges(tuple(met), self.edges + other.edges)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges(tuple(_alive((*self.parts, *other.parts))), self.edges + other.edges)

    def counts(self) -> Integers:
        """The number of keys of each query, (T,), each key counted once."""
        plain = _disjoint([part for part in self.parts if part.plain])
        strided = [part for part in self.parts if not part.plain]
        total = np.zeros_like(self.parts[0].start)
        for part in plain:
            total = total + part.counts()
        for sign, part in _inclusions(strided):
            new = part.counts()
            for other in plain:
                new = new - part.within(other.start, other.stop).counts()
            total = total + sign * new
        return total

    @property
    def pairs(self) -> int:
        """The number of (query, key) pairs, each counted once."""
        return int(self.counts().sum())

    def dense(self, keys: int) -> NDArray[np.bool_]:
        """The (T, S) matrix of the keys of each query, for pictures and tests of small sizes."""
        k = np.arange(keys)[None]
        seen = np.zeros((len(self.parts[0].start), keys), dtype=bool)
        for part in self.parts:
            inside = (k >= part.start[:, None]) & (k < part.stop[:, None])
            seen |= inside & ((k - part.phase[:, None]) % part.step < part.run)
        return seen


def _inclusions(parts: list[Progression]) -> Iterator[tuple[int, Progression]]:
    """The intersections of all combinations of parts, with the sign that counts their union: +1 for one part, -1 for two, ...

    An empty intersection stays empty with every further part, so that disjoint parts cost no more than their pairs.
    """
    ways: list[tuple[int, Progression, int]] = [(1, part, at + 1) for at, part in enumerate(parts)]
    while ways:
        sign, shared, following = ways.pop()
        yield sign, shared
        for at in range(following, len(parts)):
            ways += [(-sign, met, at + 1) for met in _meet(shared, parts[at]) if (met.stop > met.start).any()]


def _alive(parts: Iterable[Progression]) -> list[Progression]:
    """The progressions that are not empty for every query, or one of them if all are: it tells the number of queries."""
    given = list(parts)
    return [part for part in given if (part.stop > part.start).any()] or given[:1]


def _disjoint(parts: list[Progression]) -> list[Progression]:
    """Plain ranges with the same union, none overlapping another."""
    if len(parts) < 2:
        return parts
    start, stop = np.stack([part.start for part in parts], 1), np.stack([part.stop for part in parts], 1)
    stop = np.maximum(start, stop)
    order = np.argsort(start, axis=1, kind="stable")
    start, stop = np.take_along_axis(start, order, 1), np.take_along_axis(stop, order, 1)
    covered = np.maximum.accumulate(stop, axis=1)
    start[:, 1:] = np.maximum(start[:, 1:], covered[:, :-1])
    return [Progression(start[:, i], np.maximum(start, stop)[:, i], np.zeros_like(start[:, i])) for i in range(len(parts))]
