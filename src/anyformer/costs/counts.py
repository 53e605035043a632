"""Parameters and FLOPs of a tally, together and by component of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.operations import Address, Flops, Tally, Weight


@dataclass(frozen=True)
class Parameters:
    """`total` stored, tied ones once; `active` used by one token: of X experts, k."""

    total: int
    active: int
    by_component: Mapping[str, int]
    active_by_component: Mapping[str, int]


@dataclass(frozen=True)
class FlopCount:
    """`dense`: every query-key pair; `exact`: the pairs the masks allow; `by_component`: dense, exact of each."""

    dense: int
    exact: int
    by_component: Mapping[str, Flops]

    def __mul__(self, times: int) -> FlopCount:
        return FlopCount(self.dense * times, self.exact * times, {name: f * times for name, f in self.by_component.items()})


@dataclass(frozen=True)
class FlopSheet:
    """2 FLOPs per multiply-accumulate, matrix products only. `backward` is twice `forward`, and zero unless training."""

    forward: FlopCount
    backward: FlopCount

    @property
    def total(self) -> Flops:
        return Flops(self.forward.dense + self.backward.dense, self.forward.exact + self.backward.exact)


@dataclass(frozen=True)
class Executed:
    """FLOPs of matrix products that the kernels compute: scores again in the backward pass, and what is not kept."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


def flop_count(tally: Tally) -> FlopCount:
    """Those of all operations."""
    total = tally.total_flops
    found: dict[str, Flops] = {}
    for node in tally.nodes():
        for work in node.tally.own_work.values():
            if (flops := work.flops).dense:
                name = node.address.component
                found[name] = found.get(name, Flops()) + flops * node.times
    return FlopCount(total.dense, total.exact, found)


def parameters(tally: Tally) -> Parameters:
    """Those of all weights."""
    return Parameters(
        tally.parameters,
        tally.active_parameters,
        weights_by_component(tally, lambda weight: weight.count),
        weights_by_component(tally, lambda weight: weight.active),
    )


def weights_by_component(tally: Tally, measure: Callable[[Weight], int]) -> dict[str, int]:
    """Sums of a measure of each weight, of all its copies."""
    found: dict[str, int] = {}
    for node in tally.nodes():
        for weight in node.tally.own_weights.values() if node.weight_times else ():
            name = node.address.component
            found[name] = found.get(name, 0) + measure(weight) * node.weight_times
    return found


def located(tally: Tally) -> Callable[[str], tuple[Address, str]]:
    """Where a parameter, a module or a tensor lies, from its path: the address of the nearest declared part, and the rest."""
    known = {node.path: node.address for node in tally.nodes()}

    def find(path: str) -> tuple[Address, str]:
        held, rest = path, ""
        while held not in known:
            held, _, last = held.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return known[held], rest

    return find
