"""How much of a job's time is useful under failures, and how long to train between saves, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anyformer.planning.failures import TrainingJob


@dataclass(frozen=True)
class Spent:
    """Where the wall time of a job goes: seconds, or shares of one second."""

    useful: float
    """New progress that was kept."""
    saving: float
    """Training waited for saves that were kept."""
    lost: float
    """Work since the last save that the storage had, and saves, that a failure undid."""
    detection: float
    """From failures until they were noticed."""
    restart: float
    """Scheduling, starting and reading the checkpoint."""
    waiting: float
    """No spare node was there: until one came back from repair."""
    failures: float
    """Failures in this time; no part of its sum."""

    @property
    def total(self) -> float:
        return self.useful + self.saving + self.lost + self.detection + self.restart + self.waiting

    @property
    def goodput(self) -> float:
        """The share of the time that is useful new progress (Gemini Team 2023, arXiv 2312.11805, section 3)."""
        return self.useful / self.total


def young(pause: float, mtbf: float) -> float:
    """Seconds of work between saves: sqrt(2 d M) for a pause d (Young 1974, doi 10.1145/361147.361115)."""
    return math.sqrt(2 * pause * mtbf)


def daly(pause: float, mtbf: float) -> float:
    """Seconds of work between saves, to a higher order (Daly 2006, doi 10.1016/j.future.2004.11.016, equation 37).

    sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d for d < 2 M, else M, for a pause d and mean time between failures M
    of the whole job. It maximises the goodput of `expected`, in which recovery and writing are factors without the interval.
    """
    if pause >= 2 * mtbf:
        return mtbf
    ratio = pause / (2 * mtbf)
    return young(pause, mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - pause


def best_interval(job: TrainingJob, step: float = 0.0) -> float:
    """Seconds of work between saves: Daly's, in whole steps, at least one, and enough for a save to end before the next."""
    interval = max(daly(job.saves.pause, job.mtbf), job.late)
    if not step:
        return interval
    return step * max(1, math.ceil(job.late / step), round(interval / step))


def erlang_b(servers: int, load: float) -> float:
    """The share of time in which all of so many servers are busy, at a mean load: B(c) = a B(c-1) / (c + a B(c-1)), B(0) = 1.

    Erlang 1917. It holds for Poisson arrivals and any distribution of service times (Sevastyanov 1957).
    """
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return blocked


def waiting(job: TrainingJob) -> float:
    """The share of time without enough nodes: S + 1 are being repaired, for S spares.

    Nodes leave at the rate r / M (r the share of failures that take one out) unless the job waits, and return after a mean
    time: Erlang's loss system with S + 1 servers and load r * repair / M.
    """
    failures = job.failures
    if failures.spares is None:
        return 0.0
    return erlang_b(failures.spares + 1, failures.replaced * failures.repair / job.mtbf)


def enough_spares(job: TrainingJob, share: float = 1e-3) -> int:
    """The fewest spare nodes with which the job waits for repairs for less than this share of its time."""
    load = job.failures.replaced * job.failures.repair / job.mtbf
    spares, blocked = 0, load / (1 + load)
    while blocked >= share:
        spares += 1
        blocked = load * blocked / (spares + 1 + load * blocked)
    return spares


def expected(job: TrainingJob, interval: float) -> Spent:
    """The shares of wall time, expected in a long run that saves after every `interval` seconds of work.

    With M = job.mtbf, d the pause, L = interval + d, v the writing after it, R the recovery, W the share of waiting:

        goodput = (1 - W) * interval * exp(-(R + v) / M) / (M (exp(L / M) - 1))

    exact for exponential failures that may strike in any second, recovery included, which begins anew then. For v = W = 0 it is
    Daly's expected run time (2006, doi 10.1016/j.future.2004.11.016). v adds to R since the save after a recovery
    needs L + v without a failure, and each later one L. Of the time that does not wait, the share 1 - exp(-t / M) is less
    than t after a failure: that gives detection and restart. The interval is at least v: one save ends before the next begins.
    """
    mtbf, pause = job.mtbf, job.saves.pause
    recovering = -math.expm1(-job.recovery / mtbf)
    detecting = -math.expm1(-job.failures.detect / mtbf)
    length = (interval + pause) / mtbf
    # 1 / (e^x - 1) as e^-x / (1 - e^-x), which cannot overflow.
    kept = math.exp(-(job.recovery + job.late) / mtbf - length) / -math.expm1(-length) / mtbf
    useful, saving = kept * interval, kept * pause
    waits = waiting(job)
    up = 1 - waits
    return Spent(
        useful=up * useful,
        saving=up * saving,
        lost=up * max(1 - recovering - useful - saving, 0.0),
        detection=up * detecting,
        restart=up * (recovering - detecting),
        waiting=waits,
        failures=up / mtbf,
    )
