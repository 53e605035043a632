"""Key ranges of a mask in closed form: counted and combined without ever writing a (T, S) matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
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
    """The keys of each query, a union of progressions, which may overlap. Closed under `&` and `|`."""

    parts: tuple[Progression, ...]

    @staticmethod
    def plain(start: Integers, stop: Integers, keys: int) -> Ranges:
        """start <= k < stop, cut to the keys there are."""
        start, stop = np.clip(start, 0, keys), np.clip(stop, 0, keys)
        return Ranges((Progression(start, stop, np.zeros_like(start)),))

    def __and__(self, other: Ranges) -> Ranges:
        return Ranges(tuple(_alive(both for a, b in product(self.parts, other.parts) for both in _meet(a, b))))

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges(tuple(_alive((*self.parts, *other.parts))))

    @property
    def pairs(self) -> int:
        """How many (query, key) pairs there are, each counted once."""
        return int(self.counts().sum())

    def counts(self) -> Integers:
        """How many keys each query sees, each counted once, (T,)."""
        plain = _disjoint([part for part in self.parts if part.plain])
        strided = [part for part in self.parts if not part.plain]
        total = sum((part.counts() for part in plain), start=np.zeros(self.queries, dtype=np.int64))
        for size in range(1, len(strided) + 1):
            for chosen in combinations(strided, size):
                both = [chosen[0]]
                for part in chosen[1:]:
                    both = [met for held in both for met in _meet(held, part)]
                for part in both:
                    old = sum(part.within(p.start, p.stop).counts() for p in plain)
                    total += (1 if size % 2 else -1) * (part.counts() - old)
        return total

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
