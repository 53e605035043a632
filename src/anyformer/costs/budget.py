"""Budgets: the costs that an architecture is to have, and how an architecture is priced for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.costs.inference import read_per_step
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.precision import Bf16
from anyformer.quantising import FORMATS


@dataclass(frozen=True)
class Budget:
    """Target costs, None where any will do; `length`: the context of FLOPs and decoding."""

    parameters: int | None = None
    """Parameters stored."""
    active: int | None = None
    """Parameters that one token uses."""
    training_flops: int | None = None
    """FLOPs per token of a text of `length` tokens, forward and backward (3 x forward), of the pairs that the masks allow."""
    decode_bytes: int | None = None
    """Bytes read to decode one token after `length` others: the weights it uses and its decode state, 16 bits each."""
    length: int = 2048

    @property
    def targets(self) -> dict[str, int]:
        """The targets that are set, by name."""
        return {name: value for name in PRICES if (value := getattr(self, name)) is not None}


def budget_of(architecture: Architecture, *, length: int = 2048) -> Budget:
    """A budget of what an architecture costs, for another to meet."""
    return Budget(**{name: price(architecture, length) for name, price in PRICES.items()}, length=length)


def _training_flops(architecture: Architecture, length: int) -> int:
    shape = Shape(length=length, source=architecture.source_of(length))
    return 3 * architecture.folded_trained_cost(shape).total_flops.exact // length


def _decode_bytes(architecture: Architecture, length: int) -> int:
    return read_per_step(architecture, FORMATS["bf16"], length=length, plan=Plan(precision=Bf16())).total


PRICES: Mapping[str, Callable[[Architecture, int], int]] = {
    "parameters": lambda architecture, length: architecture.folded_cost(Shape(source=1)).parameters,
    "active": lambda architecture, length: architecture.folded_cost(Shape(source=1)).active_parameters,
    "training_flops": _training_flops,
    "decode_bytes": _decode_bytes,
}
"""The cost of an architecture per target of a budget."""
