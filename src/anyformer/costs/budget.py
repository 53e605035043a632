"""Budgets: what an architecture may cost, and how one is priced for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.costs.inference import FORMATS, read_per_step
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan


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


def budget_of(architecture: Architecture, *, length: int = 2048) -> Budget:
    """What an architecture costs, to be asked of another."""
    return Budget(**{name: price(architecture, length) for name, price in PRICES.items()}, length=length)


def _training_flops(architecture: Architecture, length: int) -> int:
    shape = Shape(length=length, source=architecture.source_of(length))
    return 3 * architecture.folded_cost(shape).total_flops.exact // length


def _decode_bytes(architecture: Architecture, length: int) -> int:
    return read_per_step(architecture, FORMATS["bf16"], length=length, plan=Plan(precision="bf16")).total


PRICES: Mapping[str, Callable[[Architecture, int], int]] = {
    "parameters": lambda architecture, length: architecture.folded_cost(Shape(source=1)).parameters,
    "active": lambda architecture, length: architecture.folded_cost(Shape(source=1)).active_parameters,
    "training_flops": _training_flops,
    "decode_bytes": _decode_bytes,
}
"""What a budget can ask for, and how an architecture is priced for it."""
