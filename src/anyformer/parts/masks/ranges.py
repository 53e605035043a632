"""Key ranges of a mask in closed form: counted and combined without ever writing a (T, S) matrix."""

from __future__ import annotations

from collections.abc import Iterator
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
        """Whether every key between start and stop belongs."""
        return self.run >= self.step

    def counts(self) -> Integers:
        """How many keys each query sees, (T,)."""
        return np.where(self.stop > self.start, self._below(self.stop) - self._below(self.start), 0)

    def _below(self, end: Integers) -> Integers:
        """Members between the phase and `end`, negative where the end lies before it."""
        whole, rest = np.divmod(end - self.phase, self.step)
        return whole * self.run + np.minimum(rest, self.run)

    def within(self, start: Integers, stop: Integers) -> Progression:
        """The same keys, cut to other bounds."""
        return Progression(np.maximum(self.start, start), np.minimum(self.stop, stop), self.phase, self.step, self.run)

    def singles(self) -> list[Progression]:
        """The same keys as disjoint progressions with a run of 1."""
        return [Progression(self.start, self.stop, self.phase + i, self.step) for i in range(self.run)]


def _meet(a: Progression, b: Progression) -> list[Progression]:
    """The keys of both, as disjoint progressions."""
    if a.plain:
        return [b.within(a.start, a.stop)]
    if b.plain:
        return [a.within(b.start, b.stop)]
    if a.step == b.step and np.array_equal((a.phase - b.phase) % a.step, np.zeros_like(a.phase)):
        narrow = a if a.run <= b.run else b
        return [narrow.within(np.maximum(a.start, b.start), np.minimum(a.stop, b.stop))]
    return [_congruent(x, y) for x, y in product(a.singles(), b.singles())]


def _congruent(a: Progression, b: Progression) -> Progression:
    """Two runs of 1: the Chinese remainder theorem, row by row; empty where the phases never agree."""
    common, step = gcd(a.step, b.step), lcm(a.step, b.step)
    gap = b.phase - a.phase
    times = (gap // common) * pow(a.step // common, -1, b.step // common) % (b.step // common)
    start, stop = np.maximum(a.start, b.start), np.minimum(a.stop, b.stop)
    return Progression(start, np.where(gap % common == 0, stop, start), a.phase + a.step * times, step)


@dataclass(frozen=True)
class Ranges:
    """The keys of each query, a union of progressions, which may overlap. Closed under `&` and `|`.

    `edges`: of each mask in it, the positions (T,) between which a query's keys lie, before they are cut to those there are:
    what a query sees changes its law only where one of them crosses another (`pairs.py`).
    """

    parts: tuple[Progression, ...]
    edges: tuple[Integers, ...] = ()

    @staticmethod
    def plain(start: Integers, stop: Integers, keys: int) -> Ranges:
        """start <= k < stop, cut to the keys there are."""
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
        """How many keys each query sees, (T,), each counted once."""
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
        """How many (query, key) pairs there are, each counted once."""
        return int(self.counts().sum())

    @property
    def queries(self) -> int:
        """T."""
        return len(self.parts[0].start) if self.parts else 0

    def dense(self, keys: int) -> NDArray[np.bool_]:
        """The same as a (T, S) matrix, for pictures and tests of small sizes."""
        k = np.arange(keys)[None]
        seen = np.zeros((self.queries, keys), dtype=bool)
        for part in self.parts:
            inside = (k >= part.start[:, None]) & (k < part.stop[:, None])
            seen |= inside & ((k - part.phase[:, None]) % part.step < part.run)
        return seen


def _inclusions(parts: list[Progression]) -> Iterator[tuple[int, Progression]]:
    """What all of some parts share, with the sign that counts their union: those of one part add, of two subtract, ...

    What is empty is empty with any other part too, so that disjoint parts cost their pairs alone.
    """
    ways: list[tuple[int, Progression, int]] = [(1, part, at + 1) for at, part in enumerate(parts)]
    while ways:
        sign, shared, following = ways.pop()
        yield sign, shared
        for at in range(following, len(parts)):
            ways += [(-sign, met, at + 1) for met in _meet(shared, parts[at]) if (met.stop > met.start).any()]


def _alive(parts: object) -> list[Progression]:
    """Without the progressions that are empty for every query; one stays, so that the number of queries is known."""
    given = list(parts)  # type: ignore[call-overload]
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
