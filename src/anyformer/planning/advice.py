"""Advice for a training that does not fit: the length or the number of accelerators at which it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from anyformer.costs.memory import states_of
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.layout import MOST_RANKS
from anyformer.planning.planner import Candidate, Planned, plan_training

SHORTEST = 128
"""The shortest length that is tried."""


@dataclass(frozen=True)
class Advice:
    """`fixed`: bytes of the nearest layout that no length and no batch changes; `length`, `ranks`: the longest and the fewest
    that fit, None where none does."""

    nearest: Candidate
    fixed: int
    length: int | None
    ranks: int | None

    def lines(self) -> Iterator[str]:
        """The advice in words: options of the command with figures that fit."""
        if self.fixed > self.nearest.machine.hardware.usable_memory:
            yield (
                f"{self.fixed / 1e9:,.1f} GB of it are weights, gradients and optimiser state, which neither a shorter length "
                "nor a smaller batch makes less"
            )
        if self.length is not None:
            yield f"--length {self.length:,} fits"
        if self.ranks is not None:
            yield f"--gpus {self.ranks:,} fits"
        if self.nearest.layout.ranks == 1:
            yield "--finetune says what fewer learning weights, adapters and 8-bit optimisers take"


def advise(architecture: Architecture, planned: Planned, plan: Plan) -> Advice | None:
    """Advice for a training of which no layout fits; None where no layout was possible at all."""
    if not planned.too_large:
        return None
    nearest = planned.too_large[0]
    fixed = nearest.memory.weights + nearest.memory.gradients + nearest.memory.optimiser
    length = None if fixed > planned.machine.hardware.usable_memory else _length(architecture, planned, plan)
    return Advice(nearest, fixed, length, _ranks(architecture, planned, plan))


def _length(architecture: Architecture, planned: Planned, plan: Plan) -> int | None:
    """The longest of half, a quarter ... of the length that fits."""
    halves = takewhile(lambda length: length >= SHORTEST, (planned.length >> n for n in count(1)))
    return next((length for length in halves if _fits(architecture, planned, plan, planned.ranks, length)), None)


def _ranks(architecture: Architecture, planned: Planned, plan: Plan) -> int | None:
    """The fewest of twice, four times ... as many accelerators that fit."""
    # States spread evenly take so many, without activations.
    states = states_of(plan.precision).total * architecture.folded_cost(Shape(source=1), plan).parameters
    least = states // planned.machine.hardware.usable_memory
    doubles = takewhile(lambda ranks: ranks <= MOST_RANKS, (planned.ranks << n for n in count(1)))
    return next((n for n in doubles if n >= least and _fits(architecture, planned, plan, n, planned.length)), None)


def _fits(architecture: Architecture, planned: Planned, plan: Plan, ranks: int, length: int) -> bool:
    """Whether any layout fits, with a batch of as many tokens, or one sequence per accelerator."""
    tokens = max(planned.sequences * planned.length, ranks * length)
    on = planned.machine.hardware
    found = plan_training(architecture, ranks=ranks, batch_tokens=tokens, length=length, hardware=on, plan=plan, show=1)
    return bool(found.fastest)
