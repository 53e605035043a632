"""How long an update, an evaluation and a checkpoint of a run take, before it begins."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from statistics import median

import torch

from anyformer.objectives.feed import MOST_TOKENS
from anyformer.training import budget
from anyformer.training.budget import Durations
from anyformer.training.optimiser import build_optimiser
from anyformer.training.passes import MicroBatches, Passes
from anyformer.training.place import checkpoint_bytes
from anyformer.training.precision import deterministic, units
from anyformer.training.trainer import Trainer

DISK_RATE = 2e8
"""Bytes of a checkpoint hashed and written in a second, estimated low."""
COPIED = 2**28
"""Bytes of weights that are copied at most, to time an optimiser."""
TICK = 1e-3
"""Seconds below which a reading of the thread's clock says nothing."""


def timed(trainer: Trainer, left: float) -> Durations:
    """Seconds of an update, an evaluation and a checkpoint; long ones are timed only once, to spare the seconds `left`.

    Gradients are thrown away, so that no weight changes.
    """
    batch = trainer.micro_batches(0)

    def gradients() -> None:
        gradients_of(trainer, trainer.passes, batch)

    def seconds(act: Callable[[], object]) -> float:
        own = seconds_of(act)
        return trainer.ranks.same(lambda: own)

    with deterministic(), units(trainer.run.plan):
        first = seconds(gradients)
        # The first one may include compiling, which takes longer than hundreds of updates, and then does not count.
        gradient = seconds(gradients) if trainer.run.plan.compile == "on" or first < 0.05 * left else first
        if gradient < 0.02 * left:
            gradient = median([gradient, *(seconds(gradients) for _ in range(2))])
        if trainer.samples is not None:
            gradient += seconds(lambda: trainer.micro_batches(0))
    if trainer.ranks.size == 1:
        gradient += optimiser_seconds(trainer)
    worked = budget.worked()
    evaluation = seconds(lambda: trainer.evaluate(trainer.run.batch))
    shared = max(1.0, evaluation / max(budget.worked() - worked, TICK))
    counted = min(trainer.training.whole, MOST_TOKENS) if trainer.run.evaluation.baseline else 0
    return Durations(
        gradient, evaluation, checkpoint_bytes(trainer.run) / DISK_RATE, counted, trainer.ranks.same(lambda: shared)
    )


def gradients_of(trainer: Trainer, passes: Passes, batch: MicroBatches) -> None:
    """Compute the gradients of a batch, and throw them away."""
    passes.add_gradients(batch)
    for each in (trainer.trainee, *trainer.learning.values()):
        each.optimiser.zero_grad(set_to_none=True)


def optimiser_seconds(trainer: Trainer) -> float:
    """Seconds of the optimiser's part of an update, on a copy of the model; 0 for a model too large to be copied, whose passes
    take far longer."""
    if sum(weight.nbytes for weight in trainer.model.parameters()) > COPIED:
        return 0.0
    copy = deepcopy(trainer.model)
    optimiser = build_optimiser(trainer.run.optimiser, copy, trainer.run.plan.precision, trainer.run.seed)
    for weight in copy.parameters():
        weight.grad = torch.ones_like(weight) if weight.requires_grad else None
    optimiser.step()  # which makes its moments
    return seconds_of(optimiser.step)


def seconds_of(act: Callable[[], object]) -> float:
    """How long it takes."""
    start = budget.clock()
    act()
    return budget.clock() - start
