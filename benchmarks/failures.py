"""Training under failures: the closed form against simulated runs, and both against what authors report.

    python -m benchmarks.failures

Intervals: Young's and Daly's beside the best simulated one, for jobs that fail once per ten minutes to once a day, with saves
that training waits for and saves in the background. Spares: the time waiting for repairs. Lives: devices that fail more often
while they are young. Scale: goodput of a model of 405 B parameters on a thousand to a million accelerators. Runs: the published
interruptions of planning/published_failures.toml. Everything is drawn from seeds and no clock is read: the figures are the same
on any machine. Writes benchmarks/results/failures.json; `python docs/make_failures.py` writes the page. Two minutes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from itertools import count
from typing import Any

from benchmarks.compare import RESULTS

from anyformer.planning.failures import DAY, HOST_COPY, HOUR, PUBLISHED, STORAGE, Failures, TrainingJob, saves
from anyformer.planning.goodput import best_interval, daly, enough_spares, expected, young
from anyformer.planning.simulation import goodput, simulate, simulated_interval

PARAMETERS = 405_853_388_800
"""Of llama-3.1-405b."""
CHECKPOINT = 12 * PARAMETERS
MTBF = 50_000 * HOUR
"""Of one accelerator: what Llama 3 reports, rounded."""
MINUTE = 60.0
SEEDS = count()
"""Every row has failures of its own."""


def job(devices: int, *, background: bool, storage: float | None = None, **failures: Any) -> TrainingJob:
    """A job of the 405 B model, its checkpoint evenly over all accelerators."""
    costs = saves(CHECKPOINT, CHECKPOINT / devices, storage or STORAGE * devices, background=background)
    return TrainingJob(devices, Failures(**{"mtbf": MTBF} | failures), costs)


def compared(told: TrainingJob, interval: float, work: float, runs: int) -> dict[str, float]:
    """Goodput by the formula and simulated, with its standard error and how many of them both are apart."""
    formula = expected(told, interval).goodput
    simulated, error = goodput(simulate(told, interval, work, runs=runs, seed=next(SEEDS)))
    return {
        "formula": figure(formula),
        "simulated": figure(simulated),
        "error": figure(error, 2),
        "apart": figure((simulated - formula) / error, 2),
    }


def figure(number: float, digits: int = 5) -> float:
    """A number as it is written down."""
    return float(f"{number:.{digits}g}")


def intervals() -> Iterator[dict[str, Any]]:
    """The best interval by formula and simulation, in runs of about 300 failures."""
    for between in (10 * MINUTE, HOUR, 3 * HOUR, DAY):
        for pause, write in ((1.0, 1.0), (30.0, 30.0), (300.0, 300.0), (1.0, 60.0)):
            costs = replace(job(1, background=False).saves, pause=pause, write=write, load=60.0)
            told = TrainingJob(1, Failures(between, detect=60.0, restart=60.0), costs)
            work = 300 * between * expected(told, best_interval(told)).useful
            best = simulated_interval(told, best_interval(told), work, runs=40, seed=next(SEEDS))
            yield {
                "mtbf": between,
                "pause": pause,
                "write": write,
                "young": figure(young(pause, between)),
                "daly": figure(daly(pause, between)),
                "used": figure(best_interval(told)),
                "best": figure(best.interval),
                "gain": figure(best.goodput / best.at_given - 1, 3),
                **compared(told, best_interval(told), work, 400),
            }


def spares() -> Iterator[dict[str, Any]]:
    """The share of time waiting for nodes, 16,384 accelerators and a day for a repair."""
    for number in (0, 2, 4, 6, 8, 10, 12, 16):
        told = job(16384, background=True, spares=number)
        interval = best_interval(told)
        foreseen = expected(told, interval)
        runs = simulate(told, interval, 400 * DAY * foreseen.useful, runs=40, seed=next(SEEDS))
        yield {
            "spares": number,
            "waiting": figure(foreseen.waiting),
            "simulated": figure(sum(run.waiting for run in runs) / sum(run.total for run in runs)),
            **{
                key: value
                for key, value in compared(told, interval, 400 * DAY * foreseen.useful, 40).items()
                if key != "simulated"
            },
        }


def lives() -> Iterator[dict[str, Any]]:
    """Failures in 54 days of accelerators that are new at the beginning, by the shape of their lives, and the goodput.

    Once with lives of 50,000 hours on average, and once with lives that give as many failures as Llama 3 had.
    """
    run = PUBLISHED["llama-3.1-405b"]
    for shape in (0.7, 0.8, 1.0, 1.5):
        for same, mtbf in ((False, MTBF), (True, _matched(run.devices, run.days * DAY, run.failures, shape))):
            told = job(run.devices, background=False, storage=run.row["storage"], mtbf=mtbf)
            # The interval that the failures of the run ask for, whatever the mean of the lives is.
            interval = best_interval(replace(told, failures=replace(told.failures, mtbf=run.device_mtbf)))
            runs = simulate(told, interval, run.days * DAY * 0.9, runs=40, seed=next(SEEDS), shape=shape)
            share, error = goodput(runs)
            days = sum(each.total for each in runs) / DAY
            failures = {"failures_per_day": figure(sum(each.failures for each in runs) / days, 4), "same": same}
            yield {
                "shape": shape,
                "mtbf_hours": figure(mtbf / HOUR, 4),
                "goodput": figure(share),
                "error": figure(error, 2),
            } | failures


def _matched(devices: int, seconds: float, failures: int, shape: float) -> float:
    """The mean life of which so many new devices fail so often: devices * (seconds / scale) ** shape, few of them twice."""
    return seconds * (devices / failures) ** (1 / shape) * math.gamma(1 + 1 / shape)


WAYS = {
    "waiting for saves": {"background": False},
    "saves in the background": {"background": True},
    "noticed in 1 min, started in 1 min": {"background": True, "detect": MINUTE, "restart": MINUTE},
}


def scale() -> Iterator[dict[str, Any]]:
    """Goodput by the number of accelerators, 50,000 hours each."""
    for devices in (1024, 4096, 16384, 65536, 131072, 262144, 1048576):
        for way, options in WAYS.items():
            told = job(devices, **options)
            interval = best_interval(told)
            foreseen = expected(told, interval)
            row = {"devices": devices, "way": way, "mtbf": figure(told.mtbf), "interval": figure(interval)}
            row |= {"spares": enough_spares(told), "formula": figure(foreseen.goodput)}
            work = 300 * told.mtbf * foreseen.useful
            yield row | (compared(told, interval, work, 400) if foreseen.goodput > 1e-3 else {})


def llama() -> dict[str, Any]:
    """Llama 3: expected from our defaults, and what of each interruption its goodput leaves room for."""
    run = PUBLISHED["llama-3.1-405b"]
    found: dict[str, Any] = {
        "mtbf_hours": figure(run.device_mtbf / HOUR),
        "job_hours": figure(run.device_mtbf / run.devices / HOUR),
    }
    failures = run.failures + run.row["planned"]
    for name, number in (("unexpected", run.failures), ("all", failures)):
        mtbf = run.days * DAY * run.devices / number
        for background in (False, True):
            told = job(run.devices, background=background, storage=run.row["storage"], mtbf=mtbf)
            interval = best_interval(told)
            spent = expected(told, interval)
            work = run.days * DAY * spent.goodput
            foreseen = {"interval": figure(interval), "pause": figure(told.saves.pause), "lost": figure(spent.lost)}
            found[f"{name}, {'background' if background else 'waiting'}"] = foreseen | compared(told, interval, work, 400)
    # goodput = exp(-R / M) * the rest: the recovery that the reported goodput allows, at the best interval.
    told = job(run.devices, background=True, storage=run.row["storage"], mtbf=run.days * DAY * run.devices / failures)
    at_best = expected(told, best_interval(told)).goodput * math.exp(told.recovery / told.mtbf)
    found["recovery_allowed"] = figure(told.mtbf * math.log(at_best / run.row["goodput"]))
    found["waits_for_nodes"] = enough_spares(replace(told, failures=replace(told.failures, causes=run.causes)))
    counted = {name: number for name, number, _ in run.row["causes"]}
    found["faulty_gpu"] = {"count": counted["Faulty GPU"], "share": figure(counted["Faulty GPU"] / run.failures)}
    found["faulty_gpu"] |= {"printed": run.row["printed"]["Faulty GPU"]}
    found["faulty_gpu"] |= {"count_printed_share": round(run.row["printed"]["Faulty GPU"] * run.failures)}
    return found


def opt() -> dict[str, Any]:
    """OPT-175B: the goodput of its 33 ideal days, against what its failures explain."""
    run = PUBLISHED["opt-175b"]
    row = run.row
    found: dict[str, Any] = {
        "mtbf_hours": figure(run.device_mtbf / HOUR),
        "job_hours": figure(run.device_mtbf / run.devices / HOUR),
    }
    observed = row["ideal_days"] * row["ideal_devices"] / run.devices / run.days
    found["observed"] = figure(observed, 3)
    found["machines_a_day"] = {"reported": row["machines_per_day"], "failures": figure(run.failures / run.days, 3)}
    found["lost_per_failure"] = figure((1 - observed) * run.days * DAY / run.failures, 3)
    found["lost_per_restart"] = figure((1 - observed) * run.days * DAY / row["restarts"], 3)
    ways: dict[str, dict[str, Any]] = {
        "node at hand": {},
        "repair of 4 h, no spare": {"spares": 0, "repair": 4 * HOUR},
        "repair of 24 h, 4 spares": {"spares": 4, "repair": DAY},
    }
    for name, options in ways.items():
        # Saves that training waits for, once an hour, at the default bandwidth.
        costs = saves(row["checkpoint"], row["checkpoint"] / run.devices, STORAGE * run.devices, background=False)
        told = TrainingJob(run.devices, Failures(run.device_mtbf, **options), costs)
        found[name] = compared(told, HOUR, run.days * DAY * expected(told, HOUR).goodput, 400)
    return found


def clusters() -> list[dict[str, Any]]:
    """RSC-1: hours between failures of a job by the rate of its nodes, against those that are reported."""
    run = PUBLISHED["rsc-1"]
    return [
        {"devices": devices, "reported": hours, "how": how, "ours": figure(run.device_mtbf / devices / HOUR, 4)}
        for devices, hours, how in run.row["reported"]
    ]


def main() -> None:
    """Compute, write, print."""
    record = {
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in ("anyformer", "numpy")},
        "assumed": {"storage": STORAGE, "host_copy": HOST_COPY, "checkpoint": CHECKPOINT, "mtbf": MTBF},
        "intervals": list(intervals()),
        "spares": list(spares()),
        "lives": list(lives()),
        "scale": list(scale()),
        "runs": {"llama-3.1-405b": llama(), "opt-175b": opt(), "rsc-1": clusters()},
    }
    text = json.dumps(record, indent=1)
    (RESULTS / "failures.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
