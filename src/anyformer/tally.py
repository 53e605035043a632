"""What a part declares about itself, and how declarations add up: weights, FLOPs, decode state, limits.

No torch here: an architecture is priced without being built. Everything a part owes its surroundings is in one `Tally`;
parameter counts, initialisation, decay groups and sharding are all read from the same declared weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import Any, Literal

from anyformer.describe import UserError
from anyformer.dims import LARGEST, LONGEST

Role = Literal["column", "row", "expert", "replicate"]
"""How tensor parallelism may cut a weight: `column` along outputs (dim 0), `row` along inputs (dim 1), `expert` along
experts (dim 0), `replicate` not at all."""

Fill = Literal["matrix", "residual", "embedding", "head", "ones", "zeros", "log_rate", "time_step"] | float
"""How a weight starts: at a number, or by a rule of the description; `residual` matrices write to the residual stream,
`log_rate` and `time_step` are those of a learned decay."""

Contract = Literal["causal", "chunked", "packed", "padded", "cached", "stepwise"]
"""What every part keeps unless it declares a limit.

`causal`: no token sees a later one. `chunked`: prefill in pieces equals the whole. `packed`: documents in one row equal
each alone. `padded`: a padded row equals the row alone. `cached`: decoding with state equals recomputing. `stepwise`:
tokens can be read one by one at all, whether equal to recomputing or not: nothing waits for those to come.
"""


_LENGTHS = (("length", 1), ("past", 0), ("source", 0), ("prefix", 0))


@dataclass(frozen=True)
class Shape:
    """The sizes of one call: B rows of T new positions after `past` cached ones; S keys in all.

    `source` is the length of the encoder's output, `prefix` the positions that see each other both ways,
    `capacity` the positions a decode state has room for (default: past + length).
    """

    batch: int = 1
    length: int = 1
    past: int = 0
    source: int = 0
    prefix: int = 0
    capacity: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("batch", 1, LARGEST), *((name, low, LONGEST) for name, low in _LENGTHS)):
            given = getattr(self, name)
            if type(given) is not int or not low <= given <= high:
                raise UserError(f"{name} should be a whole number from {low} to {high:,}, got {given!r}")
        if self.capacity is not None and self.capacity < self.keys:
            raise UserError(f"capacity {self.capacity} cannot hold past + length = {self.keys} positions")

    @property
    def keys(self) -> int:
        return self.past + self.length

    @property
    def room(self) -> int:
        return self.keys if self.capacity is None else self.capacity


@dataclass(frozen=True)
class Weight:
    """One declared parameter: its shape as stored, how it may be cut, how it starts."""

    shape: tuple[int, ...]
    role: Role
    fill: Fill
    chosen: int | None = None
    """Of experts stacked along dim 0: how many one token uses."""
    copies: int = 1
    """How many layers have one each, where layers that are alike are priced once."""

    def __mul__(self, copies: int) -> Weight:
        return replace(self, copies=self.copies * copies)

    @property
    def count(self) -> int:
        return prod(self.shape) * self.copies

    @property
    def active(self) -> int:
        """How many of its numbers one token uses."""
        return self.count if self.chosen is None else self.count // self.shape[0] * self.chosen

    @property
    def decays(self) -> bool:
        """Weight decay is for matrices only, never for gains and biases; stacked experts have one dimension more."""
        return len(self.shape) >= (3 if self.role == "expert" else 2)


@dataclass(frozen=True)
class Flops:
    """Matrix-product FLOPs, 2 per multiply-accumulate: `dense` counts every query-key pair, `exact` those the mask allows.

    `spared`: what the backward pass computes less than twice `dense`, because a factor takes no gradient (pixels, a state of
    zeros); negative where it computes more.
    """

    dense: int = 0
    exact: int = 0
    spared: int = 0

    @property
    def backward(self) -> int:
        """Of the backward pass, every pair counted: for each factor of a product one product."""
        return 2 * self.dense - self.spared

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.dense + other.dense, self.exact + other.exact, self.spared + other.spared)

    def __mul__(self, times: int) -> Flops:
        return Flops(self.dense * times, self.exact * times, self.spared * times)


@dataclass(frozen=True)
class Limit:
    """A contract that a part breaks by its mathematics, and why."""

    contract: Contract
    reason: str
    in_training: bool = False
    """Only while training: in evaluation the contract holds."""


@dataclass(frozen=True)
class Tally:
    """The declarations of a part and of all below it, by name."""

    weights: Mapping[str, Weight] = field(default_factory=dict)
    flops: Mapping[str, Flops] = field(default_factory=dict)
    state_bytes: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()

    def __add__(self, other: Tally) -> Tally:
        assert not self.weights.keys() & other.weights.keys(), "a weight is declared once"
        flops = dict(self.flops)
        for name, each in other.flops.items():
            flops[name] = flops[name] + each if name in flops else each
        assert not self.state_bytes.keys() & other.state_bytes.keys(), "a state is declared once"
        return Tally(
            {**self.weights, **other.weights},
            flops,
            {**self.state_bytes, **other.state_bytes},
            tuple(dict.fromkeys((*self.limits, *other.limits))),
        )

    def within(self, name: str) -> Tally:
        """The same declarations, seen from the part that holds this one under `name`."""
        return Tally(
            {f"{name}.{key}": weight for key, weight in self.weights.items()},
            {f"{name}.{key}": flops for key, flops in self.flops.items()},
            {f"{name}.{key}" if key else name: size for key, size in self.state_bytes.items()},
            self.limits,
        )

    def __mul__(self, times: int) -> Tally:
        """The declarations of so many layers that are alike, each name standing for all of them."""
        if times == 1:
            return self
        tables = {at.name: getattr(self, at.name) for at in fields(self) if at.name != "limits"}
        more: dict[str, Any] = {at: {name: each * times for name, each in table.items()} for at, table in tables.items()}
        return replace(self, **more)

    @property
    def without_weights(self) -> Tally:
        """The same work with weights that are declared elsewhere."""
        return replace(self, weights={})

    @property
    def of_constants(self) -> Tally:
        """The same, every product reading what takes no gradient: one product on the way back, for the weight."""
        return replace(self, flops={name: replace(flops, spared=flops.dense) for name, flops in self.flops.items()})

    @property
    def parameters(self) -> int:
        return sum(weight.count for weight in self.weights.values())

    @property
    def active_parameters(self) -> int:
        """Those that one token uses."""
        return sum(weight.active for weight in self.weights.values())

    @property
    def total_flops(self) -> Flops:
        every = self.flops.values()
        return Flops(*(sum(getattr(flops, at.name) for flops in every) for at in fields(Flops)))

    @property
    def total_state_bytes(self) -> int:
        return sum(self.state_bytes.values())

    def breaks(self, contract: Contract, *, training: bool = False) -> tuple[str, ...]:
        """Why `contract` does not hold in evaluation (or `training`), empty if it does."""
        return tuple(
            limit.reason for limit in self.limits if limit.contract == contract and (training or not limit.in_training)
        )


def total(tallies: Mapping[str, Tally]) -> Tally:
    """The sum of named children, each under its name."""
    weights: dict[str, Weight] = {}
    flops: dict[str, Flops] = {}
    state: dict[str, int] = {}
    limits: list[Limit] = []
    for name, tally in tallies.items():
        inner = tally.within(name)
        weights |= inner.weights
        flops |= inner.flops
        state |= inner.state_bytes
        limits += inner.limits
    return Tally(weights, flops, state, tuple(dict.fromkeys(limits)))


def matrix(name: str, inputs: int, outputs: int, rows: int, *, role: Role, bias: bool = False, fill: Fill = "matrix") -> Tally:
    """A linear layer applied to `rows` vectors: weight (outputs, inputs), 2 * rows * inputs * outputs FLOPs."""
    weights = {f"{name}.weight": Weight((outputs, inputs), role, fill)}
    if bias:
        weights[f"{name}.bias"] = Weight((outputs,), "column" if role == "column" else "replicate", "zeros")
    work = 2 * rows * inputs * outputs
    return Tally(weights, {name: Flops(work, work)})
