"""Parameters and FLOPs of a tally, together and by component of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from anyformer.tally import Flops, Tally

N = TypeVar("N", int, Flops)
STACKS = ("encoder", "decoder")
_STEP = re.compile(r"^step_\d+_")


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
    return FlopCount(total.dense, total.exact, by_component(tally.flops.items(), Flops))


def parameters(tally: Tally) -> Parameters:
    """Those of all weights."""
    return Parameters(
        tally.parameters,
        tally.active_parameters,
        by_component(((name, weight.count) for name, weight in tally.weights.items()), int),
        by_component(((name, weight.active) for name, weight in tally.weights.items()), int),
    )


def by_component(named: Iterable[tuple[str, N]], zero: Callable[[], N]) -> dict[str, N]:
    """Sums of what has names of modules."""
    components: dict[str, N] = {}
    for name, each in named:
        key = component(name)
        components[key] = components.get(key, zero()) + each
    return components


def component(name: str) -> str:
    """`decoder.layers.3.attention.sublayer.query` -> `decoder.attention`, whatever the layer; `head.weight` -> `head`."""
    words = name.split(".")
    if words[0] not in STACKS:
        return words[0]
    return f"{words[0]}.{_STEP.sub('', words[3])}" if words[1] == "layers" else ".".join(words[:2])
