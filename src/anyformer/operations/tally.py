"""Tallies: the declarations of a part, and their sums.

A `Tally` is a tree: what a part declares itself, and the tallies of the parts that it holds, under their names. Sums are taken
over the tree; names and addresses are made only where somebody asks for them, so that an architecture is priced in a
fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from anyformer.operations.address import MODEL, Address, Level
from anyformer.operations.limits import Contract, Limit
from anyformer.operations.shape import Shape
from anyformer.operations.weight import Fill, Role, Weight
from anyformer.operations.work import Flops, Operation, Product


@dataclass(frozen=True)
class State:
    """Decode state in bytes: how many are `held`, and how many of them a call has `read` and `written`.

    A call over many positions writes them; a step of one position reads what its query sees, which is less than is held where
    a mask leaves keys out, and more where a layer reads the state of another.
    """

    held: int
    read: int
    written: int
    ranks: int = 1
    """Among how many ranks of tensor parallelism it can be divided: its key heads; 1 where each rank needs all of it."""

    @property
    def moved(self) -> int:
        return self.read + self.written

    def __mul__(self, times: int) -> State:
        return self if times == 1 else State(self.held * times, self.read * times, self.written * times, self.ranks)

    @classmethod
    def of(cls, shape: Shape, held: int, seen: int, ranks: int = 1) -> State:
        """Of keys and values: a step reads `seen` bytes, a longer call writes all that is held."""
        return cls(held, seen, 0, ranks) if shape.length == 1 else cls(held, 0, held, ranks)


@dataclass(frozen=True)
class Inner:
    """A tally inside another: its `name` in addresses, how many `times` it is there, and how many of them own `weights`."""

    tally: Tally
    level: Level
    name: str
    times: int = 1
    weights: int = 1


@dataclass(frozen=True)
class Node:
    """One part of a model with its own declarations: its address and path in the model, and how many copies there are."""

    address: Address
    path: str
    tally: Tally
    times: int
    weight_times: int

    def name(self, own: str) -> str:
        """The name in the model of the declaration that the part calls `own`."""
        return _join(self.path, own)


@dataclass(frozen=True)
class Tally:
    """The declarations of a part and of all that it holds. `inner`: held parts by their path; an own name may be empty."""

    own_weights: Mapping[str, Weight] = field(default_factory=dict)
    own_work: Mapping[str, Operation] = field(default_factory=dict)
    own_state: State | None = None
    own_limits: tuple[Limit, ...] = ()
    inner: Mapping[str, Inner] = field(default_factory=dict)

    def __add__(self, other: Tally) -> Tally:
        twins = (self.own_weights.keys() & other.own_weights.keys()) | (self.own_work.keys() & other.own_work.keys())
        assert not twins | (self.inner.keys() & other.inner.keys()), "everything is declared once"
        assert self.own_state is None or other.own_state is None, "a state is declared once"
        return Tally(
            {**self.own_weights, **other.own_weights},
            {**self.own_work, **other.own_work},
            self.own_state or other.own_state,
            tuple(dict.fromkeys((*self.own_limits, *other.own_limits))),
            {**self.inner, **other.inner},
        )

    def within(self, path: str, level: Level = "part", name: str = "", *, times: int = 1, weights: int | None = None) -> Tally:
        """The same declarations, seen from the part that holds this one at `path`, called `name` in addresses.

        `times`: how many layers there are like it, of which so many have `weights` of their own (default: all).
        """
        return Tally(inner={path: Inner(self, level, name or path, times, times if weights is None else weights)})

    def without(self, *what: Literal["weights", "work", "state", "limits"]) -> Tally:
        """The same without some kinds of declarations, in it and in all parts that it holds."""
        return Tally(
            {} if "weights" in what else self.own_weights,
            {} if "work" in what else self.own_work,
            None if "state" in what else self.own_state,
            () if "limits" in what else self.own_limits,
            {path: replace(each, tally=each.tally.without(*what)) for path, each in self.inner.items()},
        )

    def nodes(self, at: Address = MODEL, path: str = "", times: int = 1, weight_times: int = 1) -> Iterator[Node]:
        """Every part, those that hold others first."""
        yield Node(at, path, self, times, weight_times)
        for name, each in self.inner.items():
            yield from each.tally.nodes(
                at.within(each.level, each.name), _join(path, name), times * each.times, weight_times * each.weights
            )

    @cached_property
    def weights(self) -> Mapping[str, Weight]:
        """All of them by name."""
        return {
            node.name(own): weight * node.weight_times
            for node in self.nodes()
            for own, weight in (node.tally.own_weights.items() if node.weight_times else ())
        }

    @property
    def flops(self) -> Mapping[str, Flops]:
        """Of all matrix products by name."""
        found = ((node, own, work.flops) for node in self.nodes() for own, work in node.tally.own_work.items())
        return {node.name(own): flops * node.times for node, own, flops in found if flops != Flops()}

    @property
    def states(self) -> Mapping[str, State]:
        """Of all decode state by name."""
        return {node.path: node.tally.own_state * node.times for node in self.nodes() if node.tally.own_state is not None}

    @property
    def state_bytes(self) -> Mapping[str, int]:
        """Bytes of decode state that are held, by name."""
        return {name: state.held for name, state in self.states.items() if state.held}

    @property
    def limits(self) -> tuple[Limit, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(limit for node in self.nodes() for limit in node.tally.own_limits))

    @property
    def parameters(self) -> int:
        return sum(weight.count for weight in self.own_weights.values()) + sum(
            each.tally.parameters * each.weights for each in self.inner.values()
        )

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.active for weight in self.own_weights.values()) + sum(
            each.tally.active_parameters * each.weights for each in self.inner.values()
        )

    @property
    def total_flops(self) -> Flops:
        found = [(work.flops, 1) for work in self.own_work.values()]
        found += [(each.tally.total_flops, each.times) for each in self.inner.values()]
        return Flops(
            sum(flops.dense * times for flops, times in found),
            sum(flops.exact * times for flops, times in found),
            sum(flops.no_gradient * times for flops, times in found),
        )

    @property
    def total_state_bytes(self) -> int:
        """Bytes of decode state that are held."""
        own = 0 if self.own_state is None else self.own_state.held
        return own + sum(each.tally.total_state_bytes * each.times for each in self.inner.values())

    def breaks(self, contract: Contract, *, training: bool = False) -> tuple[str, ...]:
        """Why `contract` does not hold in evaluation (or `training`), empty if it does."""
        return tuple(
            limit.reason for limit in self.limits if limit.contract == contract and (training or not limit.in_training)
        )


def total(tallies: Mapping[str, Tally], level: Level = "part") -> Tally:
    """The sum of named children, each under its name."""
    return Tally(inner={name: Inner(tally, level, name) for name, tally in tallies.items()})


def matrix(
    name: str,
    inputs: int,
    outputs: int,
    rows: int,
    *,
    role: Role,
    bias: bool = False,
    fill: Fill = "matrix",
    constant: bool = False,
    sensitive: bool = False,
) -> Tally:
    """A linear layer applied to `rows` vectors: weight (outputs, inputs), 2 * rows * inputs * outputs FLOPs.

    `constant`: its inputs take no gradient; `sensitive`: formats below 16 bits leave the weight alone.
    """
    weights = {_join(name, "weight"): Weight((outputs, inputs), role, fill, sensitive=sensitive)}
    if bias:
        weights[_join(name, "bias")] = Weight((outputs,), "column" if role == "column" else "replicate", "zeros")
    return Tally(weights, {name: Product(rows, inputs, outputs, role, fill == "residual", constant)})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
