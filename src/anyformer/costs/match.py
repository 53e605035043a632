"""Fair comparisons: an architecture at the sizes that meet a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyformer.costs.budget import Budget
from anyformer.costs.search import Search, candidates
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.resizing.sizes import Knob, Sizes, lattice, resized

PATIENCE = 1000
"""Architectures priced before giving up."""


class UnmatchedError(UserError):
    """No size meets the budget; `nearest` is the nearest found, None where no size could be priced at all."""

    def __init__(self, message: str, nearest: Match | None) -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class Match:
    """An architecture that meets a budget, its sizes and its costs, by name of the targets.

    `error`: the largest relative distance from a target; `priced`: how many architectures were priced on the way.
    """

    architecture: Architecture
    sizes: Sizes
    costs: dict[str, int]
    error: float
    priced: int


def match(
    architecture: Architecture,
    budget: Budget,
    *,
    move: Sequence[Knob] = ("width", "ffn"),
    multiple: int = 8,
    tolerance: float = 0.005,
) -> Match:
    """The architecture at the sizes that meet the budget within `tolerance`, or `UnmatchedError` with the nearest.

    `move`: the sizes that may move, the finest last: it is solved for at every value of the others, which are tried from the
    nearest to a uniform scaling (for two targets, the last two are solved for together). Of its two values between which a
    target lies, the one that costs no more is tried first, and taken where it is within `tolerance`. Widths are multiples of
    `multiple` (64 or 128 suit large matrix products). Heads, experts, groups and patterns of layers keep their numbers and
    divide as before; see `lattice` and `resized`.
    """
    search = Search(architecture, budget, multiple)
    knobs = tuple(dict.fromkeys(move))
    ranges = {knob: lattice(architecture, knob, multiple) for knob in knobs}
    _check(budget, ranges)
    if search.error(search.start) <= tolerance:
        return _best(search)
    for at in candidates(search, ranges):
        if search.error(at) <= tolerance:
            return _best(search)
        if search.priced >= PATIENCE:
            break
    raise UnmatchedError(_refusal(search, knobs, tolerance), None if search.best is None else _best(search))


def _best(search: Search) -> Match:
    """The match at the best sizes so far."""
    assert search.best is not None
    costs = search.costs(search.best)
    assert costs is not None
    made = resized(search.architecture, search.best, search.multiple)
    return Match(made, search.best, costs, search.least, search.priced)


def _refusal(search: Search, knobs: Iterable[Knob], tolerance: float) -> str:
    """The targets, the nearest sizes, and the remedy, in words."""
    targets = ", ".join(f"{name} = {target:,}" for name, target in search.budget.targets.items())
    moved = " and ".join(knobs)
    costs = None if search.best is None else search.costs(search.best)
    if search.best is None or costs is None:
        return f"{targets}: no {moved} that is a multiple of {search.multiple} makes a valid architecture; set another multiple"
    nearest = ", ".join(f"{name} = {cost:,}" for name, cost in costs.items())
    at = ", ".join(f"{knob} = {getattr(search.best, knob):,}" for knob in knobs)
    return (
        f"{targets}: no {moved} comes within {tolerance:.1%} of it. The nearest is {at}, with {nearest}, which is "
        f"{search.least:,.2%} off. Let more sizes move, or set a smaller multiple than {search.multiple}"
    )


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
