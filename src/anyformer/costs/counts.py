"""Parameters and FLOPs of a tally, in total and by component of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.operations import Address, Flops, Tally, Weight


@dataclass(frozen=True)
class Parameters:
    """`total` parameters are stored, tied ones once; one token uses `active` of them: of X experts, k."""

    total: int
    active: int
    by_component: Mapping[str, int]
    active_by_component: Mapping[str, int]
    mtp: int = 0
    """Parameters beside `total`, of the predictions of later tokens, which only training has."""


@dataclass(frozen=True)
class FlopCount:
    """`dense`: FLOPs of every query-key pair; `exact`: of the pairs that the masks allow; `by_component`: both, by name."""

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
    """FLOPs of matrix products that the kernels compute, scores and checkpointed layers once more in the backward pass."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


def flop_count(tally: Tally) -> FlopCount:
    """FLOPs of every operation of a tally."""
    total = tally.total_flops
    sums: dict[str, Flops] = {}
    for node in tally.nodes():
        for work in node.tally.own_work.values():
            if (flops := work.flops).dense:
                name = node.address.component
                sums[name] = sums.get(name, Flops()) + flops * node.times
    return FlopCount(total.dense, total.exact, sums)


def parameters(tally: Tally, trained: Tally | None = None) -> Parameters:
    """Parameters of every weight of a tally; `trained`: that of a call in training, which may have more."""
    return Parameters(
        tally.parameters,
        tally.active_parameters,
        weights_by_component(tally, lambda weight: weight.count),
        weights_by_component(tally, lambda weight: weight.active),
        0 if trained is None else trained.parameters - tally.parameters,
    )


def weights_by_component(tally: Tally, measure: Callable[[Weight], int]) -> dict[str, int]:
    """Sums of a measure of each weight, all its copies counted."""
    sums: dict[str, int] = {}
    for node in tally.nodes():
        for weight in node.tally.own_weights.values() if node.weight_times else ():
            name = node.address.component
            sums[name] = sums.get(name, 0) + measure(weight) * node.weight_times
    return sums


def located(tally: Tally) -> Callable[[str], tuple[Address, str]]:
    """A function from the path of a parameter, module or tensor to the address of the part that declares it, and the rest."""
    known = {node.path: node.address for node in tally.nodes()}

    def find(path: str) -> tuple[Address, str]:
        part, rest = path, ""
        while part not in known:
            part, _, last = part.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return known[part], rest

    return find
