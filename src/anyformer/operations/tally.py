"""Tallies: the declarations of a part, and their sums.

A `Tally` is a tree: the part's own declarations, and the tallies of its parts under their names. Sums are taken over the tree;
names and addresses are made only on request, so that an architecture is priced in a fraction of a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from anyformer.operations.address import MODEL, Address, Level
from anyformer.operations.limits import Contract, Limit
from anyformer.operations.shape import Shape
from anyformer.operations.weight import Dimension, Fill, Role, Weight
from anyformer.operations.work import Flops, Operation, Product


@dataclass(frozen=True)
class StateBytes:
    """Decode state in bytes: those that are `held`, and those that a call has `read` and `written`.

    A call over many positions writes its state. A step of one position reads the keys and values that its query sees: fewer
    bytes than are held if the mask leaves keys out, and more if the layer reads another layer's state.
    """

    held: int
    read: int
    written: int
    ranks: int = 1
    """The most ranks of tensor parallelism that divide it: its key heads; 1 if each rank needs all of it."""

    @property
    def moved(self) -> int:
        return self.read + self.written

    def __mul__(self, times: int) -> StateBytes:
        return self if times == 1 else StateBytes(self.held * times, self.read * times, self.written * times, self.ranks)

    @classmethod
    def of(cls, shape: Shape, held: int, read: int, ranks: int = 1) -> StateBytes:
        """The state of keys and values: a step reads `read` bytes, a longer call writes all that is held."""
        return cls(held, read, 0, ranks) if shape.length == 1 else cls(held, 0, held, ranks)


@dataclass(frozen=True)
class Inner:
    """A tally inside another: its `name` in addresses, the number of its copies, of copies with own `weights`, and of those
    that no gradient reaches."""

    tally: Tally
    level: Level
    name: str
    times: int = 1
    weights: int = 1
    unreached: int = 0


@dataclass(frozen=True)
class Node:
    """One part of a model with its own declarations: its address and path in the model, and the number of its copies, of those
    with own weights, and of those that no gradient reaches."""

    address: Address
    path: str
    tally: Tally
    times: int
    weight_times: int
    unreached: int

    def name(self, own: str) -> str:
        """The name in the model of the part's declaration `own`."""
        return _join(self.path, own)


@dataclass(frozen=True)
class Tally:
    """The declarations of a part and of all its parts. `inner`: its parts by path; the name of a declaration may be empty."""

    own_weights: Mapping[str, Weight] = field(default_factory=dict)
    own_work: Mapping[str, Operation] = field(default_factory=dict)
    own_state: StateBytes | None = None
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
        """This tally without some kinds of declarations, its own and those of its parts."""
        return Tally(
            {} if "weights" in what else self.own_weights,
            {} if "work" in what else self.own_work,
            None if "state" in what else self.own_state,
            () if "limits" in what else self.own_limits,
            {path: replace(inner, tally=inner.tally.without(*what)) for path, inner in self.inner.items()},
        )

    def as_parts(self) -> Tally:
        """These declarations as those of one component: its layers and branches are parts of it like all others."""
        parts = {path: replace(each, tally=each.tally.as_parts(), level="part", name=path) for path, each in self.inner.items()}
        return replace(self, inner=parts)

    def counted(self, *axes: Dimension) -> Tally:
        """This tally, each of its own weights with these factors of its dimensions."""
        return replace(self, own_weights={name: replace(each, axes=axes) for name, each in self.own_weights.items()})

    def writing(self) -> Tally:
        """This tally of what stands last in a branch: its own weights that start at 0 shift what the branch adds."""
        shifts = {name: replace(each, writes=each.fill == "zeros") for name, each in self.own_weights.items()}
        return replace(self, own_weights=shifts)

    def nodes(
        self, at: Address = MODEL, path: str = "", times: int = 1, weight_times: int = 1, unreached: int = 0
    ) -> Iterator[Node]:
        """Every part, those that hold others first."""
        yield Node(at, path, self, times, weight_times, unreached)
        for name, each in self.inner.items():
            yield from each.tally.nodes(
                at.within(each.level, each.name),
                _join(path, name),
                times * each.times,
                weight_times * each.weights,
                unreached * each.times + (times - unreached) * each.unreached,
            )

    @cached_property
    def weights(self) -> Mapping[str, Weight]:
        """All weights by name."""
        return {
            node.name(own): weight * node.weight_times
            for node in self.nodes()
            for own, weight in (node.tally.own_weights.items() if node.weight_times else ())
        }

    @property
    def flops(self) -> Mapping[str, Flops]:
        """FLOPs of every matrix product by name."""
        products = ((node, own, work.flops) for node in self.nodes() for own, work in node.tally.own_work.items())
        return {node.name(own): flops * node.times for node, own, flops in products if flops != Flops()}

    @property
    def states(self) -> Mapping[str, StateBytes]:
        """Decode state of every part by name."""
        return {node.path: node.tally.own_state * node.times for node in self.nodes() if node.tally.own_state is not None}

    @property
    def state_bytes(self) -> Mapping[str, int]:
        """Bytes of decode state that every part holds, by name."""
        return {name: state.held for name, state in self.states.items() if state.held}

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of all parts, each once."""
        inner = (limit for each in self.inner.values() for limit in each.tally.limits)
        return tuple(dict.fromkeys((*self.own_limits, *inner)))

    @property
    def parameters(self) -> int:
        return sum(weight.count for weight in self.own_weights.values()) + sum(
            inner.tally.parameters * inner.weights for inner in self.inner.values()
        )

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        return sum(weight.active for weight in self.own_weights.values()) + sum(
            inner.tally.active_parameters * inner.weights for inner in self.inner.values()
        )

    @property
    def total_flops(self) -> Flops:
        terms = [(work.flops, 1, 0) for work in self.own_work.values()]
        terms += [(inner.tally.total_flops, inner.times, inner.unreached) for inner in self.inner.values()]
        return Flops(
            sum(flops.dense * times for flops, times, _ in terms),
            sum(flops.exact * times for flops, times, _ in terms),
            sum(flops.no_gradient * times + flops.backward * unreached for flops, times, unreached in terms),
        )

    @property
    def total_state_bytes(self) -> int:
        """Bytes of decode state that all parts hold."""
        own = 0 if self.own_state is None else self.own_state.held
        return own + sum(inner.tally.total_state_bytes * inner.times for inner in self.inner.values())

    def breaks(
        self, contract: Contract, *, training: bool = False, length: int | None = None, read_again: bool = False
    ) -> tuple[str, ...]:
        """The reasons why `contract` does not hold in evaluation (or `training`); empty if it does.

        `length`: the most positions of a text, by default any number; `read_again`: whoever asks reads texts again, as
        `read_again_beyond` has it.
        """
        return tuple(
            limit.reason
            for limit in self.limits
            if limit.contract == contract
            and (training or not limit.in_training)
            and (length is None or limit.beyond is None or length > limit.beyond)
            and not (read_again and limit.read_again)
        )

    @property
    def read_again_beyond(self) -> frozenset[int]:
        """The numbers of positions beyond which a text that a decode state holds has to be read again, once for each."""
        return frozenset(limit.beyond for limit in self.limits if limit.read_again and limit.beyond is not None)


def total(tallies: Mapping[str, Tally], level: Level = "part") -> Tally:
    """The sum of tallies, each under its name."""
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
    outputs_as: Dimension = (),
    inputs_as: Dimension = (),
    groups: int = 1,
) -> Tally:
    """A linear layer applied to `rows` vectors: weight (outputs, inputs), 2 * rows * inputs * outputs FLOPs.

    `constant`: its inputs take no gradient; `sensitive`: the weight stays in 16 bits or more; `outputs_as`, `inputs_as`: the
    factors of both dimensions, where they have some; `groups`: each output reads its group's share of the inputs alone.
    """
    writes, told = fill == "residual", bool(outputs_as or inputs_as) and groups == 1
    axes, inputs = (outputs_as, inputs_as) if told else (), inputs // groups
    weight = Weight((outputs, inputs), role, fill, sensitive=sensitive, linear=groups == 1, axes=axes, writes=writes)
    weights = {_join(name, "weight"): weight}
    if bias:
        cut: Role = "column" if role == "column" else "replicate"
        weights[_join(name, "bias")] = Weight((outputs,), cut, "zeros", axes=(outputs_as,) if outputs_as else (), writes=writes)
    return Tally(weights, {name: Product(rows, inputs, outputs, role, fill == "residual", constant, groups)})


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
