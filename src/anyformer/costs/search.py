"""The search for sizes that meet a budget: one size is solved for where another stands, for costs rise with every size."""

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
        """What is asked for, at these sizes; None where the architecture cannot have them."""
        if at not in self.prices:
            try:
                made = resized(self.architecture, at, self.multiple)
                self.prices[at] = {name: PRICES[name](made, self.budget.length) for name in self.budget.targets}
            except ValueError:  # of a part that does not fit these sizes
                self.prices[at] = None
        return self.prices[at]

    def error(self, at: Sizes) -> float:
        """The largest relative distance from what is asked for."""
        costs = self.costs(at)
        if costs is None:
            return float("inf")
        error = max(abs(costs[name] / target - 1) for name, target in self.budget.targets.items())
        if error < self.least:
            self.best, self.least = at, error
        return error

    def along(self, start: Sizes, knob: Knob, values: range) -> Iterator[Sizes]:
        """For each target the two neighbouring values of one size between which it lies; costs rise with every size."""
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
        # From where it stands outwards, so that of several answers the least odd is found.
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
        """Of the nearest sizes, not above these, that make an architecture; 0 where none near do."""
        for j in range(i, max(i - 16, -1), -1):
            costs = self.costs(replace(at, **{knob: values[j]}))
            if costs is not None:
                return costs[name]
        return 0.0

    def _last_below(self, start: Sizes, knob: Knob, values: range, name: str, target: int) -> int:
        """The index of the last value that costs no more than the target, -1 if none does: from where it stands outwards, then
        by chords and halves in turn, so that no curve can hold the chords back."""
        low, high, low_cost, high_cost = -1, len(values), 0.0, float("inf")
        probe, step = _index(values, getattr(self.start, knob)), 1
        while high - low > 1:
            paid = self._cost(start, knob, values, probe, name)
            if paid <= target:
                low, low_cost = probe, paid
            else:
                high, high_cost = probe, paid
            step += 1
            probe = (low + high) // 2
            if high == len(values):
                probe = min(low + (1 << step), high - 1)
            elif low >= 0 and step % 2:
                chord = low + round((high - low) * (target - low_cost) / (high_cost - low_cost))
                probe = min(max(chord, low + 1), high - 1)
        return low


def candidates(search: Search, ranges: dict[Knob, range]) -> Iterator[Sizes]:
    """Sizes to try. As many as there are targets (at most two) are solved for; the others are tried from the nearest to what,
    scaling all alike, meets the first target."""
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
    """The sizes at which everything that moves, scaled alike, meets the first target."""
    name, target = next(iter(search.budget.targets.items()))
    low, high = -10.0, 10.0
    for _ in range(12):
        middle = (low + high) / 2
        costs = search.costs(_scaled(search, ranges, 2**middle))
        low, high = (middle, high) if costs is not None and costs[name] <= target else (low, middle)
    return _scaled(search, ranges, 2 ** ((low + high) / 2))


def _scaled(search: Search, ranges: dict[Knob, range], factor: float) -> Sizes:
    """The sizes that move, all times a factor, on their lattices."""
    start = {knob: getattr(search.start, knob) for knob in ranges}
    moved = {knob: ranges[knob][_index(ranges[knob], start[knob] * factor)] for knob in ranges}
    return replace(search.start, **{knob: start[knob] if factor == 1 else value for knob, value in moved.items()})


def _index(values: range, near: float) -> int:
    """Where in a range its nearest value stands."""
    return max(0, min(round((near - values.start) / values.step), len(values) - 1))


def _around(values: range, ideal: int, now: int, count: int = 20) -> list[int]:
    """So many values on each side of the ideal one, and the one there is."""
    middle = _index(values, ideal)
    return list(dict.fromkeys([now, *values[max(0, middle - count) : middle + count + 1]]))


def _spread(values: range, now: int, count: int = 12) -> list[int]:
    """Places of a range: the one there is, and some ever farther apart below and above it, in rising order."""
    middle = _index(values, now)
    offsets = [round(len(values) ** (i / count)) for i in range(count + 1)]
    places = {middle, *(middle + sign * offset for offset in offsets for sign in (-1, 1))}
    return sorted(place for place in places if 0 <= place < len(values) and now <= 8 * values[place] <= 64 * now)


def _distance(knobs: Sequence[Knob], values: Sequence[int], ideal: Sizes) -> float:
    """How far sizes are from the ideal ones, as a sum of ratios."""
    wanted: list[int] = [getattr(ideal, knob) for knob in knobs]
    return sum(max(value / one, one / value) for value, one in zip(values, wanted, strict=True))
