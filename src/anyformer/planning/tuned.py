"""Fine-tuning on one accelerator: every method with the least recomputation that fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from anyformer.costs.fine_tuning import FineTuning, Method, methods
from anyformer.costs.hardware import Hardware
from anyformer.costs.holding import Holding
from anyformer.model import Architecture
from anyformer.plan import Checkpointing, Plan


@dataclass(frozen=True)
class PricedMethod:
    """A method with its price: `learning` parameters, `memory` at the peak, the `largest` batch that fits (0: none).

    `fixed`: bytes of weights, gradients and optimiser state, whatever the batch and the length; `largest_recomputed`: the
    largest batch with full checkpointing.
    """

    name: str
    checkpointing: Checkpointing
    batch: int
    learning: int
    memory: Holding
    fixed: int
    fits: bool
    largest: int
    largest_recomputed: int
    tokens_per_second: float


def choices(
    architecture: Architecture,
    *,
    hardware: Hardware,
    batch: int,
    length: int,
    rank: int,
    plan: Plan,
    own: Iterable[Method] = (),
) -> Iterator[PricedMethod]:
    """A choice for each of the user's `own` methods and of `methods`, with full checkpointing where none fits.

    Products in fp32 leave out the methods whose weights learn in bf16.
    """
    plan = hardware.resolved(plan)
    for method in (*own, *methods(architecture, rank)):
        if plan.number != "fp32" or method.number == "fp32":
            yield _choice(architecture, method, hardware, batch, length, plan)


def _choice(architecture: Architecture, method: Method, on: Hardware, batch: int, length: int, plan: Plan) -> PricedMethod:
    """The method with the least checkpointing that fits."""
    how: Checkpointing
    for how in get_args(Checkpointing):
        priced = FineTuning(architecture, method, length, plan.but(checkpointing=how))
        memory = priced.memory(batch)
        if memory.total <= on.usable_memory:
            break
    largest = priced.largest_batch(on.usable_memory)
    full = priced if how == "full" else FineTuning(architecture, method, length, plan.but(checkpointing="full"))
    return PricedMethod(
        method.name,
        how,
        batch,
        priced.tuned.parameters,
        memory,
        priced.fixed,
        memory.total <= on.usable_memory,
        largest,
        largest if full is priced else full.largest_batch(on.usable_memory),
        batch * length / priced.seconds(batch, on),
    )
