"""What failures make of a planned training run: its goodput, its wall time, and the best interval between saves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from anyformer.costs.memory import states_of
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.failures import STORAGE, Failures, TrainingJob, saves
from anyformer.planning.goodput import Spent, best_interval, daly, enough_spares, expected, young
from anyformer.planning.planner import Candidate
from anyformer.planning.simulation import FACTORS, Best, simulate, simulated_interval

RUNS, SEARCHED = 100, 25
"""Simulated runs at most, and those of each interval that is tried."""
FAILURES = 100_000
"""Failures of all simulated runs at most: fewer runs where one has many."""
LEAST = 0.01
"""A goodput below which a job counts as making no progress."""


@dataclass(frozen=True)
class Forecast:
    """A training run of `work` seconds without failures, under failures; all times in seconds."""

    job: TrainingJob
    checkpoint: int
    """Bytes of a checkpoint: weights and the optimiser's state."""
    step: float
    work: float
    interval: float
    """Of work between saves, in whole steps."""
    young: float
    daly: float
    spent: Spent
    """Shares of the wall time, expected."""
    simulated: tuple[Spent, ...]
    """Seconds per simulated run; empty where one would have too many failures."""
    best: Best | None
    """The best interval of the simulation."""
    enough: int
    """Spare nodes with which less than a thousandth of the time is waiting for repairs."""

    @property
    def wall(self) -> float:
        """Seconds of the whole run, expected."""
        return self.work / self.spent.goodput

    @property
    def failures(self) -> float:
        """Failures of the whole run, expected."""
        return self.wall * self.spent.failures


def checkpoint_bytes(architecture: Architecture, candidate: Candidate) -> int:
    """Bytes of a checkpoint: per parameter those of the weight and of Adam's state, 12 in all but pure bf16."""
    states = states_of(candidate.machine.precision)
    return architecture.cost(Shape(), Plan()).parameters * (states.weights + states.optimiser)


def job_of(
    architecture: Architecture,
    candidate: Candidate,
    failures: Failures,
    *,
    storage: float | None = None,
    background: bool = False,
    pause: float | None = None,
) -> TrainingJob:
    """The job of a layout, with saves on a storage of so many bytes/s, by default STORAGE per accelerator."""
    devices = candidate.layout.ranks
    whole, held = checkpoint_bytes(architecture, candidate), candidate.memory.weights + candidate.memory.optimiser
    costs = saves(whole, min(whole, held), storage or STORAGE * devices, background=background, pause=pause)
    return TrainingJob(devices, failures, costs)


def forecast(
    job: TrainingJob,
    checkpoint: int,
    step: float,
    work: float,
    *,
    every: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Forecast:
    """What failures make of `work` seconds of steps, with saves `every` so many seconds of work, by default the best."""
    interval = best_interval(job, step) if every is None else step * max(1, round(every / step))
    if interval < job.late:
        raise UserError(
            f"a save takes {job.late:.4g} s beside training, longer than the {interval:.4g} s until the next: save less often, "
            f"every {math.ceil(job.late / step) * step:.4g} s, or on faster storage"
        )
    spent = expected(job, interval)
    if spent.goodput < LEAST:
        raise UserError(
            f"the job fails once per {job.mtbf:.4g} s and needs {job.recovery:.4g} s to recover: {spent.goodput:.2g} of its "
            "time would be progress; detect failures or start sooner, save faster, keep spares, or take fewer accelerators"
        )
    foreseen = work / spent.goodput * spent.failures
    runs = min(RUNS, int(FAILURES / max(foreseen, 1)))
    simulated: tuple[Spent, ...] = ()
    best = None
    if runs >= 2:
        searched = min(SEARCHED, runs)
        total = runs + searched * (len(FACTORS) + 1)
        simulated = simulate(job, interval, work, runs=runs, progress=lambda done: progress(done, total))
        best = simulated_interval(job, interval, work, runs=searched, progress=lambda done: progress(runs + done, total))
    return Forecast(
        job,
        checkpoint,
        step,
        work,
        interval,
        young(job.saves.pause, job.mtbf),
        daly(job.saves.pause, job.mtbf),
        spent,
        simulated,
        best,
        enough_spares(job),
    )
