"""Fine-tuning on one accelerator: every way with the least recomputation that fits."""

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
class Choice:
    """A method with its price: `learning` parameters, `held` when most is, the `largest` batch that fits (0: none).

    `fixed`: bytes of weights, gradients and optimiser state, whatever the batch and the length; `largest_again`: the largest
    batch with every layer computed again.
    """

    name: str
    checkpointing: Checkpointing
    batch: int
    learning: int
    held: Holding
    fixed: int
    fits: bool
    largest: int
    largest_again: int
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
) -> Iterator[Choice]:
    """Each of one's `own` methods and of `methods`; where none of the ways to compute again fits, the one that takes least.

    Products in fp32 leave out the ways whose weights learn in bf16.
    """
    plan = hardware.resolved(plan)
    for method in (*own, *methods(architecture, rank)):
        if plan.number in ("bf16", method.number):
            yield _least(architecture, method, hardware, batch, length, plan)


def _least(architecture: Architecture, method: Method, on: Hardware, batch: int, length: int, plan: Plan) -> Choice:
    how: Checkpointing
    for how in get_args(Checkpointing):
        priced = FineTuning(architecture, method, length, plan.but(checkpointing=how))
        held = priced.held(batch)
        if held.total <= on.room:
            break
    largest = priced.largest_batch(on.room)
    again = priced if how == "full" else FineTuning(architecture, method, length, priced.plan.but(checkpointing="full"))
    return Choice(
        method.name,
        how,
        batch,
        priced.tuned.parameters,
        held,
        priced.fixed,
        held.total <= on.room,
        largest,
        largest if again is priced else again.largest_batch(on.room),
        batch * length / priced.seconds(batch, on),
    )
