"""The search for sizes that meet a budget: costs rise with every size, so one size is solved for while others are fixed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from anyformer.costs.budget import PRICES, Budget
from anyformer.model import Architecture
from anyformer.resizing.sizes import Knob, Sizes, resized, sizes


class Search:
    """Prices of an architecture at other sizes, each once, and the best sizes so far."""

    def __init__(self, architecture: Architecture, budget: Budget, multiple: int) -> None:
        self.architecture, self.budget, self.multiple = architecture, budget, multiple
        self.start = sizes(architecture)
        self.prices: dict[Sizes, dict[str, int] | None] = {}
        self.best: Sizes | None = None
        self.least = float("inf")

    @property
    def priced(self) -> int:
        return len(self.prices)

    def costs(self, at: Sizes) -> dict[str, int] | None:
        """Costs that the budget names, at these sizes; None where the architecture cannot have them."""
        if at not in self.prices:
            try:
                made = resized(self.architecture, at, self.multiple)
                self.prices[at] = {name: PRICES[name](made, self.budget.length) for name in self.budget.targets}
            except ValueError:  # a part refuses these sizes
                self.prices[at] = None
        return self.prices[at]

    def error(self, at: Sizes) -> float:
        """The largest relative distance from a target of the budget."""
        costs = self.costs(at)
        if costs is None:
            return float("inf")
        error = max(abs(costs[name] / target - 1) for name, target in self.budget.targets.items())
        if error < self.least:
            self.best, self.least = at, error
        return error

    def along(self, start: Sizes, knob: Knob, values: range) -> Iterator[Sizes]:
        """For each target the two neighbouring values of one size between which it lies."""
        for name, target in self.budget.targets.items():
            below = self._last_below(start, knob, values, name, target)
            for i in (below, below + 1):
                if 0 <= i < len(values):
                    yield replace(start, **{knob: values[i]})

    def across(self, start: Sizes, knobs: tuple[Knob, Knob], values: tuple[range, range]) -> Iterator[Sizes]:
        """Two sizes for two targets: the second size meets the first target wherever the first size stands, and the first size
        is halved in between two places where the second target is missed on opposite sides."""
        (first, second), (steps, inner) = knobs, values
        name = list(self.budget.targets)[1]

        def missed(i: int) -> tuple[float, Sizes]:
            tried = list(self.along(replace(start, **{first: steps[i]}), second, inner))
            at = min(tried, key=self.error)
            costs = self.costs(at)
            return (0.0 if costs is None else costs[name] - self.budget.targets[name]), at

        now = _index(steps, getattr(self.start, first))
        places = [(i, *missed(i)) for i in _spread(steps, getattr(self.start, first))]
        # From the present size outwards, so that of several answers the nearest is found.
        for left, right in sorted(pairwise(places), key=lambda pair: min(abs(pair[0][0] - now), abs(pair[1][0] - now))):
            (low, low_miss, low_at), (high, high_miss, high_at) = left, right
            yield from (low_at, high_at)
            while high - low > 1 and low_miss * high_miss < 0:
                middle = (low + high) // 2
                miss, at = missed(middle)
                yield at
                if low_miss * miss <= 0:
                    high, high_miss = middle, miss
                else:
                    low, low_miss = middle, miss

    def _cost(self, at: Sizes, knob: Knob, values: range, i: int, name: str) -> float:
        """The cost at the largest valid sizes up to these, 0 where none of the 16 below is valid."""
        for j in range(i, max(i - 16, -1), -1):
            costs = self.costs(replace(at, **{knob: values[j]}))
            if costs is not None:
                return costs[name]
        return 0.0

    def _last_below(self, start: Sizes, knob: Knob, values: range, name: str, target: int) -> int:
        """The index of the last value that costs no more than the target, -1 if none does.

        Searched from the present value outwards, then by chords and halves in turn, so that no curve makes it slow.
        """
        low, high, low_cost, high_cost = -1, len(values), 0.0, float("inf")
        probe, step = _index(values, getattr(self.start, knob)), 1
        while high - low > 1:
            cost = self._cost(start, knob, values, probe, name)
            if cost <= target:
                low, low_cost = probe, cost
            else:
                high, high_cost = probe, cost
            step += 1
            probe = (low + high) // 2
            if high == len(values):
                probe = min(low + (1 << step), high - 1)
            elif low >= 0 and step % 2:
                chord = low + round((high - low) * (target - low_cost) / (high_cost - low_cost))
                probe = min(max(chord, low + 1), high - 1)
        return low


def candidates(search: Search, ranges: dict[Knob, range]) -> Iterator[Sizes]:
    """Sizes to try: one or two, as many as there are targets, are solved for at every value of the others.

    Those values are tried from the nearest to the sizes that meet the first target when all are scaled alike.
    """
    knobs = tuple(ranges)
    solved = 2 if len(search.budget.targets) > 1 and len(knobs) > 1 else 1
    outer, inner = knobs[:-solved], knobs[-solved:]
    ideal = _ideal(search, ranges)
    choices = [_around(ranges[knob], getattr(ideal, knob), getattr(search.start, knob)) for knob in outer]
    for values in sorted(product(*choices), key=lambda values: _distance(outer, values, ideal)):
        start = replace(search.start, **dict(zip(outer, values, strict=True)))
        if solved == 2:
            yield from search.across(start, (inner[0], inner[1]), (ranges[inner[0]], ranges[inner[1]]))
        elif search.costs(start) is not None:
            yield from search.along(start, inner[0], ranges[inner[0]])


def _ideal(search: Search, ranges: dict[Knob, range]) -> Sizes:
    """The sizes that meet the first target when all that may move are scaled alike."""
    name, target = next(iter(search.budget.targets.items()))
    low, high = -10.0, 10.0
    for _ in range(12):
        middle = (low + high) / 2
        costs = search.costs(_scaled(search, ranges, 2**middle))
        low, high = (middle, high) if costs is not None and costs[name] <= target else (low, middle)
    return _scaled(search, ranges, 2 ** ((low + high) / 2))


def _scaled(search: Search, ranges: dict[Knob, range], factor: float) -> Sizes:
    """The sizes, those that may move times a factor and rounded to their lattices."""
    start = {knob: getattr(search.start, knob) for knob in ranges}
    moved = {knob: ranges[knob][_index(ranges[knob], start[knob] * factor)] for knob in ranges}
    return replace(search.start, **{knob: start[knob] if factor == 1 else value for knob, value in moved.items()})


def _index(values: range, near: float) -> int:
    """The index of the value of a range that is nearest to a number."""
    return max(0, min(round((near - values.start) / values.step), len(values) - 1))


def _around(values: range, ideal: int, now: int, count: int = 20) -> list[int]:
    """The present value, and `count` values on each side of the ideal one."""
    middle = _index(values, ideal)
    return list(dict.fromkeys([now, *values[max(0, middle - count) : middle + count + 1]]))


def _spread(values: range, now: int, count: int = 12) -> list[int]:
    """Indices of a range in rising order: of the present value, and of values ever farther apart below and above it."""
    middle = _index(values, now)
    offsets = [round(len(values) ** (i / count)) for i in range(count + 1)]
    places = {middle, *(middle + sign * offset for offset in offsets for sign in (-1, 1))}
    return sorted(place for place in places if 0 <= place < len(values) and now <= 8 * values[place] <= 64 * now)


def _distance(knobs: Sequence[Knob], values: Sequence[int], ideal: Sizes) -> float:
    """Distance of sizes from the ideal ones, a sum of ratios."""
    best: list[int] = [getattr(ideal, knob) for knob in knobs]
    return sum(max(value / near, near / value) for value, near in zip(values, best, strict=True))
