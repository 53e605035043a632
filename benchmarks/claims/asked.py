"""Questions that several claims ask of the library."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import anyformer as af
from anyformer.catalogue import listing
from anyformer.catalogue.row import Listed
from anyformer.costs.sheet import CostSheet
from anyformer.describe import change_all
from anyformer.model import Architecture
from anyformer.operations import Shape


@cache
def made_of(name: str) -> Architecture:
    """An architecture of the catalogue, made once."""
    return af.architecture(name)


def changed(name: str, changes: Mapping[str, object]) -> Architecture:
    """An entry of the catalogue with values changed by path, all at once."""
    return change_all(made_of(name), changes)


def sheet(what: str | Architecture, length: int, mode: str = "prefill", **asked: Any) -> CostSheet:
    """The cost sheet of an entry or a description."""
    return af.cost(made_of(what) if isinstance(what, str) else what, length=length, mode=mode, **asked)


def forward(what: str | Architecture, length: int) -> int:
    """FLOPs of matrix products of a forward pass over one sequence, every pair of positions counted."""
    return sheet(what, length).flops.forward.dense


def pairs(what: str | Architecture, length: int, *, exact: bool = False) -> int:
    """FLOPs of scores and of mixing values: of every pair of positions, or `exact` of those that masks allow."""
    made = made_of(what) if isinstance(what, str) else what
    flops = made.folded_cost(Shape(length=length, source=length * made.two_inputs)).flops
    return sum(f.exact if exact else f.dense for name, f in flops.items() if name.endswith(("scores", "mix")))


def entries(least: float = 0, *, shape: str = "decoder-only", since: int = 0) -> list[Listed]:
    """Entries of one shape with at least so many parameters, published in this year or later; stand-ins left out."""
    return [
        row
        for row in listing()
        if row.columns.shape == shape and row.columns.parameters >= least and row.year >= since and not row.stand_in
    ]


@cache
def component_shares(name: str) -> Mapping[str, float]:
    """The share of the parameters by component."""
    params = sheet(name, 64).params
    return {component: count / params.total for component, count in params.by_component.items()}


def network_share(name: str) -> float:
    """The share of feed-forward networks and experts in the parameters."""
    return sum(share for name, share in component_shares(name).items() if "feedforward" in name or "experts" in name)


def first(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The smallest whole number above `low` for which `reached` is true, by halving; it is at `high` at the latest."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def median(values: Iterable[float]) -> float:
    return statistics.median(values)
