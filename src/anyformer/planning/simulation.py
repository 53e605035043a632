"""A job and its failures, drawn and followed one by one: what the closed form of `goodput.py` is held against."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from anyformer.describe import UserError
from anyformer.planning.failures import TrainingJob
from anyformer.planning.goodput import Spent, expected

MOST_FAILURES = 5_000_000
"""Failures of all runs of a simulation, above which it is refused."""
FACTORS = tuple(2.0**power for half in (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 3 / 2, 2) for power in (-half, half))
"""Multiples of an interval that `simulated_interval` tries beside it: a quarter to four times, the nearest 4 % away."""


def job_failures(job: TrainingJob, generator: np.random.Generator) -> Iterator[float]:
    """Times at which a job fails, in seconds in which it does not wait: the devices together are one Poisson process."""
    now = 0.0
    while True:
        for gap in generator.exponential(job.mtbf, 256).tolist():
            now += gap
            yield now


def device_failures(job: TrainingJob, generator: np.random.Generator, shape: float) -> Iterator[float]:
    """The same from a clock per device, which a new one restarts: lives of Weibull's distribution, exponential at shape 1.

    Below 1 young devices fail more often (0.7 to 0.8: Schroeder and Gibson 2010, doi 10.1109/TDSC.2009.4). All are new at 0.
    """
    scale = job.failures.mtbf / math.gamma(1 + 1 / shape)
    clocks = (scale * generator.weibull(shape, job.devices)).tolist()
    heapq.heapify(clocks)
    while True:
        failed = clocks[0]
        heapq.heapreplace(clocks, failed + scale * float(generator.weibull(shape)))
        yield failed


def follow(job: TrainingJob, interval: float, count: int, failures: Iterator[float], generator: np.random.Generator) -> Spent:
    """Seconds of one run until the storage has its last of `count` saves, one after each `interval` seconds of work.

    It begins at once, with every node. Repairs take an exponential time.
    """
    told, segment = job.failures, interval + job.saves.pause
    detect = start = began = lost = detection = restart = waited = 0.0
    done = number = 0
    returns: list[float] = []
    for failed in failures:
        ran = failed - began - detect - start
        if ran >= (count - done) * segment + job.late:
            break
        number += 1
        kept = int((ran - job.late) // segment) if ran > job.late else 0
        done += kept
        lost += max(ran, 0.0) - kept * segment
        detection += min(failed - began, detect)
        restart += min(max(failed - began - detect, 0.0), start)
        began, detect, start = failed, told.detect, job.start
        if told.spares is not None and generator.random() < told.replaced:
            now = failed + waited
            while returns and returns[0] <= now:
                heapq.heappop(returns)
            heapq.heappush(returns, now + generator.exponential(told.repair))
            if len(returns) > told.spares:
                waited += heapq.heappop(returns) - now
    saving = count * job.saves.pause + job.late
    return Spent(count * interval, saving, lost, detection + detect, restart + start, waited, number)


def simulate(
    job: TrainingJob,
    interval: float,
    work: float,
    *,
    runs: int,
    seed: int = 0,
    shape: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Spent, ...]:
    """Seconds of each of so many runs of `work` useful seconds; the same failures strike whatever the interval is.

    `shape`: of the life of each device (`device_failures`); None draws the exponential times of the whole job at once.
    `progress` is told the number of runs done. Refused: an interval too short for a save to end before the next, and a job that
    fails so often that it would hardly end.
    """
    if interval < job.late:
        raise UserError(
            f"a save takes {job.late:.4g} s beside training, longer than the interval of {interval:.4g} s until the next: "
            "save less often, or on faster storage"
        )
    foreseen = expected(job, interval)
    if not foreseen.useful or runs * work / foreseen.useful * foreseen.failures > MOST_FAILURES:
        raise UserError(
            f"a simulation of {runs:,} runs of {work:.4g} s of work would meet more than {MOST_FAILURES:,} failures, one per "
            f"{job.mtbf:.4g} s: fewer runs, less work, or a job that fails less often"
        )
    found = []
    for run, sequence in enumerate(np.random.SeedSequence(seed).spawn(runs)):
        failing, repairing = (np.random.default_rng(each) for each in sequence.spawn(2))
        failures = job_failures(job, failing) if shape is None else device_failures(job, failing, shape)
        found.append(follow(job, interval, math.ceil(work / interval), failures, repairing))
        progress(run + 1)
    return tuple(found)


def goodput(runs: tuple[Spent, ...]) -> tuple[float, float]:
    """Useful seconds over all seconds of all runs, and the standard error of this ratio (of independent runs; 0 for one)."""
    useful, total = (np.array([getattr(run, name) for run in runs]) for name in ("useful", "total"))
    ratio = float(useful.sum() / total.sum())
    if len(runs) == 1:
        return ratio, 0.0
    return ratio, float(np.std(useful - ratio * total, ddof=1) / total.mean() / math.sqrt(len(runs)))


@dataclass(frozen=True)
class Best:
    """The interval of the highest simulated goodput among those tried, and the goodput around which they were."""

    interval: float
    goodput: float
    at_given: float
    tried: tuple[tuple[float, float], ...]
    """Every interval with its goodput."""


def simulated_interval(
    job: TrainingJob,
    given: float,
    work: float,
    *,
    runs: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Best:
    """The best of intervals from a quarter to four times the given one, each under the same failures."""
    tried: dict[float, float] = {}
    for each in sorted({max(given * factor, job.late) for factor in FACTORS} | {given}):
        tried[each] = goodput(simulate(job, each, work, runs=runs, seed=seed))[0]
        progress(runs * len(tried))
    best = max(tried, key=lambda each: tried[each])
    return Best(best, tried[best], tried[given], tuple(tried.items()))
