"""What would make a training fit that does not: computed, and only what helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anyformer.costs.memory import ADAM
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.planner import Candidate, Planned, plan_training

MOST = 4096
"""Accelerators that are tried."""
SHORTEST = 128


@dataclass(frozen=True)
class Advice:
    """`held`: bytes of the nearest layout that no length and no batch changes; `length`, `ranks`: the most and the fewest that
    fit, None where none does."""

    nearest: Candidate
    held: int
    length: int | None
    ranks: int | None

    def lines(self) -> Iterator[str]:
        """What helps, with its figure, and what cannot."""
        on = self.nearest.machine.hardware
        if self.held > on.usable_memory:
            yield (
                f"{self.held / 1e9:,.1f} GB of it are weights, gradients and optimiser state, which neither a shorter length "
                "nor a smaller batch makes less"
            )
        if self.length is not None:
            yield f"--length {self.length:,} fits"
        if self.ranks is not None:
            yield f"--gpus {self.ranks:,} fits"
        if self.nearest.layout.ranks == 1:
            yield "--finetune says what fewer learning weights, adapters and 8-bit optimisers take"


def advise(architecture: Architecture, planned: Planned, plan: Plan) -> Advice | None:
    """For a training of which nothing fits; None where no layout was possible at all."""
    if not planned.too_large:
        return None
    nearest, on = planned.too_large[0], planned.machine.hardware
    held = nearest.memory.weights + nearest.memory.gradients + nearest.memory.optimiser
    length = None if held > on.usable_memory else _length(architecture, planned, plan)
    return Advice(nearest, held, length, _ranks(architecture, planned, plan))


def _length(architecture: Architecture, planned: Planned, plan: Plan) -> int | None:
    """The longest of half, a quarter ... of the length that fits."""
    length = planned.length // 2
    while length >= SHORTEST:
        if _fits(architecture, planned, plan, planned.ranks, length):
            return length
        length //= 2
    return None


def _ranks(architecture: Architecture, planned: Planned, plan: Plan) -> int | None:
    """The fewest of twice, four times ... as many accelerators that fit."""
    room = planned.machine.hardware.usable_memory
    # Spread evenly, without activations.
    least = ADAM.total * architecture.folded_cost(Shape(source=1), plan).parameters // room
    ranks = planned.ranks * 2
    while ranks <= MOST:
        if ranks >= least and _fits(architecture, planned, plan, ranks, planned.length):
            return ranks
        ranks *= 2
    return None


def _fits(architecture: Architecture, planned: Planned, plan: Plan, ranks: int, length: int) -> bool:
    """Whether anything does, with a batch of the same tokens, or one sequence for each accelerator."""
    tokens = max(planned.sequences * planned.length, ranks * length)
    on = planned.machine.hardware
    found = plan_training(architecture, ranks=ranks, batch_tokens=tokens, length=length, hardware=on, plan=plan, show=1)
    return bool(found.fastest)
