"""The solver of fair comparisons: the sizes at which an architecture meets a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from anyformer.costs.inference import FORMATS, read_per_step
from anyformer.costs.reshape import Knob, Sizes, lattice, resized, sizes
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.tally import Shape

PATIENCE = 1000
"""Architectures priced before giving up."""


class UnmatchedError(UserError):
    """No size meets the budget; `nearest` is the nearest found, None where no size could be priced at all."""

    def __init__(self, message: str, nearest: Match | None) -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class Budget:
    """What is given, each None where it may be anything; `length` is the context that FLOPs and decoding are for."""

    parameters: int | None = None
    """Stored."""
    active: int | None = None
    """Parameters that one token uses."""
    training_flops: int | None = None
    """Per token of a text of `length` tokens: forward and backward (3 x forward), the pairs that the masks allow."""
    decode_bytes: int | None = None
    """Read to decode one token after `length` others: the weights it uses and its decode state, 16 bits each."""
    length: int = 2048

    @property
    def targets(self) -> dict[str, int]:
        """What is asked for."""
        named = {name: getattr(self, name) for name in PRICES}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class Match:
    """The architecture found, its sizes, what it costs of what was asked for, the largest relative `error`, and how many
    architectures were `priced` on the way."""

    architecture: Architecture
    sizes: Sizes
    costs: dict[str, int]
    error: float
    priced: int


def budget_of(architecture: Architecture, *, length: int = 2048) -> Budget:
    """What an architecture costs, to be asked of another."""
    return Budget(**{name: price(architecture, length) for name, price in PRICES.items()}, length=length)


def match(
    architecture: Architecture,
    budget: Budget,
    *,
    move: Sequence[Knob] = ("width", "ffn"),
    multiple: int = 8,
    tolerance: float = 0.005,
) -> Match:
    """The architecture at the sizes that meet the budget within `tolerance`, or `UnmatchedError` with the nearest.

    `move`: what may move, the last one the finest: it is solved for at each value of the others, which are tried from the
    nearest to what scales all alike (of two targets, the last two are solved for together). `multiple`: what widths are
    multiples of (64 or 128 suit large matrix products). Heads, experts, groups and patterns of layers keep their numbers and
    divide as before; see `lattice` and `resized`.
    """
    search = _Search(architecture, budget, multiple)
    knobs = tuple(dict.fromkeys(move))
    ranges = {knob: lattice(architecture, knob, multiple) for knob in knobs}
    _check(budget, ranges)
    if search.error(search.start) <= tolerance:
        return search.found()
    for at in _candidates(search, ranges):
        if search.error(at) <= tolerance:
            return search.found()
        if search.priced >= PATIENCE:
            break
    raise UnmatchedError(search.refusal(knobs, tolerance), None if search.best is None else search.found())


class _Search:
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

    def found(self) -> Match:
        """The best sizes so far."""
        assert self.best is not None
        costs = self.costs(self.best)
        assert costs is not None
        return Match(resized(self.architecture, self.best, self.multiple), self.best, costs, self.least, self.priced)

    def refusal(self, knobs: Iterable[Knob], tolerance: float) -> str:
        """What was asked for, what came nearest, and what to do."""
        asked = ", ".join(f"{name} = {target:,}" for name, target in self.budget.targets.items())
        moved = " and ".join(knobs)
        costs = None if self.best is None else self.costs(self.best)
        if self.best is None or costs is None:
            return f"{asked}: no {moved} on multiples of {self.multiple} makes an architecture; set another multiple"
        nearest = ", ".join(f"{name} = {cost:,}" for name, cost in costs.items())
        at = ", ".join(f"{knob} = {getattr(self.best, knob):,}" for knob in knobs)
        return (
            f"{asked}: moving {moved} does not meet it within {tolerance:.1%}; nearest is {nearest} "
            f"({self.least:.2%} off) at {at}. Let more sizes move, or set a smaller multiple than {self.multiple}"
        )


def _candidates(search: _Search, ranges: dict[Knob, range]) -> Iterator[Sizes]:
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


def _ideal(search: _Search, ranges: dict[Knob, range]) -> Sizes:
    """The sizes at which everything that moves, scaled alike, meets the first target."""
    name, target = next(iter(search.budget.targets.items()))
    low, high = -10.0, 10.0
    for _ in range(12):
        middle = (low + high) / 2
        costs = search.costs(_scaled(search, ranges, 2**middle))
        low, high = (middle, high) if costs is not None and costs[name] <= target else (low, middle)
    return _scaled(search, ranges, 2 ** ((low + high) / 2))


def _scaled(search: _Search, ranges: dict[Knob, range], factor: float) -> Sizes:
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


def _check(budget: Budget, ranges: dict[Knob, range]) -> None:
    if not budget.targets:
        raise UserError("the budget asks for nothing: set parameters, active, training_flops or decode_bytes")
    if not ranges:
        raise UserError("nothing may move: name width, depth or ffn")
    for name, target in budget.targets.items():
        if target < 1:
            raise UserError(f"{name} should be at least 1, got {target}")
    for knob, values in ranges.items():
        if len(values) < 2:
            raise UserError(f"{knob} cannot move: the architecture has no feed-forward network, or layers that do not repeat")


def _training_flops(architecture: Architecture, length: int) -> int:
    shape = Shape(length=length, source=length if architecture.two_inputs else 0)
    return 3 * architecture.folded_cost(shape).total_flops.exact // length


def _decode_bytes(architecture: Architecture, length: int) -> int:
    return read_per_step(architecture, FORMATS["bf16"], length=length, plan=Plan(precision="bf16")).total


PRICES: dict[str, Callable[[Architecture, int], int]] = {
    "parameters": lambda architecture, length: architecture.folded_cost(Shape(source=1)).parameters,
    "active": lambda architecture, length: architecture.folded_cost(Shape(source=1)).active_parameters,
    "training_flops": _training_flops,
    "decode_bytes": _decode_bytes,
}
"""What a budget can ask for, and how an architecture is priced for it."""
