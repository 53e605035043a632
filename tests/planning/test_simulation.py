"""The simulation against one that takes every save as an event, and against the closed form."""

from __future__ import annotations

import math
from dataclasses import astuple, fields, replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyformer.describe import UserError
from anyformer.planning import simulation
from anyformer.planning.failures import Cause
from anyformer.planning.goodput import Spent, best_interval, daly, expected
from anyformer.planning.simulation import (
    device_failures,
    follow,
    goodput,
    job_failures,
    simulate,
    simulated_interval,
)
from failing_jobs import HOUR, job, jobs

PURPOSES = [each.name for each in fields(Spent)]
BUSY = {
    "saves that wait": job(HOUR, pause=60.0, load=100.0),
    "saves in the background": job(HOUR, pause=5.0, write=200.0, load=100.0),
    "frequent failures": job(600.0, pause=30.0, load=60.0, detect=120.0, restart=120.0),
    "one spare": job(HOUR, pause=60.0, repair=HOUR, spares=1),
    "few need a repair": job(
        HOUR, repair=3 * HOUR, spares=0, causes=(Cause("disk", 0.2), Cause("software", 0.8, repaired=False))
    ),
}


def event_by_event(job, interval, count, failures, repairs):
    """Seconds by purpose of a run in which every change of what it does is an event; every failure takes a node out."""
    clock = waited = phase_end = 0.0
    spent = dict.fromkeys(("work", "save", "detection", "restart", "waiting"), 0.0)
    phase, phase_end = "work", interval
    writing, returns, number, done, captured = [], [], 0, 0, 0
    failures, repairs = list(failures), iter(repairs)
    while done < count:
        failure = failures[number] + waited
        now = min(phase_end, failure, writing[0] if writing else math.inf)
        spent[phase] += now - clock
        clock = now
        if now == failure:
            number += 1
            writing, captured = [], done
            if job.failures.spares is not None:
                returns = [each for each in returns if each > clock] + [clock + next(repairs)]
                while len(returns) > job.failures.spares:
                    spent["waiting"] += min(returns) - clock
                    waited += min(returns) - clock
                    clock = min(returns)
                    returns.remove(clock)
            phase, phase_end = "detection", clock + job.failures.detect
        elif writing and now == writing[0]:
            done += 1
            writing.pop(0)
        elif phase == "work":
            captured += 1
            writing.append(clock + job.saves.write)
            phase, phase_end = "save", clock + job.saves.pause
        elif phase == "save":
            phase, phase_end = ("save", math.inf) if captured == count else ("work", clock + interval)
        elif phase == "detection":
            phase, phase_end = "restart", clock + job.start
        else:
            phase, phase_end = "work", clock + interval
    useful, saving = count * interval, count * job.saves.pause + job.late
    lost = spent["work"] + spent["save"] - useful - saving
    return Spent(useful, saving, lost, spent["detection"], spent["restart"], spent["waiting"], number)


class Drawn:
    """A generator of random numbers that were drawn before."""

    def __init__(self, times):
        self.times = iter(times)

    def random(self):
        return 0.0

    def exponential(self, mean):
        return next(self.times)


@settings(deadline=None)
@given(jobs(), st.floats(0.2, 5), st.integers(1, 30), st.integers(0, 2**32))
def test_a_run_is_that_of_its_events(told, factor, count, seed):
    """The same failures and repairs: every second has the same purpose."""
    interval = max(best_interval(told) * factor, told.late)
    if expected(told, interval).goodput < 0.02:
        return
    generator = np.random.default_rng(seed)
    failures = list(islice(job_failures(told, generator), 20_000))
    repairs = generator.exponential(told.failures.repair, 20_000).tolist()
    fast = follow(told, interval, count, iter(failures), Drawn(repairs))
    slow = event_by_event(told, interval, count, failures, repairs)
    assert astuple(fast) == pytest.approx(astuple(slow), rel=1e-6, abs=1e-5 * fast.total)


@pytest.mark.parametrize("name", BUSY)
@pytest.mark.parametrize("times", [0.5, 1, 3])
def test_runs_are_on_average_what_the_formula_says(name, times):
    """Every purpose within four standard errors of its mean, in 60 runs of 200 failures or so (seeded)."""
    told = BUSY[name]
    interval = max(times * daly(told.saves.pause, told.mtbf), told.late)
    foreseen = expected(told, interval)
    runs = simulate(told, interval, 200 * told.mtbf * foreseen.useful, runs=60, seed=1)
    ratio, error = goodput(runs)
    assert 0 < error < 0.01
    assert abs(ratio - foreseen.goodput) < 4 * error + 2e-4, "and what the beginning of a run makes"
    totals = np.array([run.total for run in runs])
    for purpose in PURPOSES:
        seconds, share = np.array([getattr(run, purpose) for run in runs]), getattr(foreseen, purpose)
        error = np.std(seconds - share * totals, ddof=1) / math.sqrt(len(runs))
        assert abs(np.mean(seconds - share * totals)) < 4 * error + 2e-3 * totals.mean() * max(share, 0.1), purpose


@pytest.mark.parametrize("name", BUSY)
def test_the_best_simulated_interval_is_no_better_than_dalys(name):
    """By less than 0.5 % of the goodput, among intervals of a quarter to four times Daly's."""
    told = BUSY[name]
    best = simulated_interval(told, best_interval(told), 300 * told.mtbf, runs=30, seed=2)
    assert best.at_given <= best.goodput < best.at_given * 1.005
    assert len(best.tried) >= 9
    shares = [share for _, share in best.tried]
    assert min(shares[-1], shares[0] if name != "saves in the background" else 0) < best.goodput * 0.99, "the others are worse"


def test_the_error_of_the_mean_is_that_of_many_means():
    told = BUSY["saves that wait"]
    means, errors = zip(*(goodput(simulate(told, 660.0, 60 * HOUR, runs=20, seed=seed)) for seed in range(60)), strict=True)
    assert np.std(means) == pytest.approx(np.mean(errors), rel=0.25)
    assert goodput(simulate(told, 660.0, HOUR, runs=1))[1] == 0


def test_devices_with_clocks_of_their_own_fail_as_one_job_does():
    """At shape 1 a job's clock is that of its devices together: as many failures in as many seconds, as far apart."""
    told = job(HOUR, devices=500)
    gaps = np.diff(list(islice(device_failures(told, np.random.default_rng(0), 1.0), 20_000)))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(HOUR, rel=4 / math.sqrt(20_000))
    assert gaps.std() == pytest.approx(HOUR, rel=0.05)
    together = np.diff(list(islice(job_failures(told, np.random.default_rng(0)), 20_000)))
    assert together.mean() == pytest.approx(HOUR, rel=4 / math.sqrt(20_000))
    assert together.std() == pytest.approx(HOUR, rel=0.05)


def test_young_devices_fail_more_often_below_shape_one():
    """The first life has the mean that is asked for, and of a new job more than its share fail early."""
    told = job(HOUR, devices=2000)
    first = list(islice(device_failures(told, np.random.default_rng(0), 0.7), 200))
    assert first[-1] < 0.6 * 200 * HOUR
    long = list(islice(device_failures(job(HOUR, devices=20), np.random.default_rng(0), 0.7), 40_000))
    assert long[-1] / 40_000 == pytest.approx(HOUR, rel=0.05)


def test_the_same_seed_is_the_same_runs_and_failures_are_those_of_any_interval():
    told = BUSY["one spare"]
    assert simulate(told, 600.0, 50 * HOUR, runs=3, seed=5) == simulate(told, 600.0, 50 * HOUR, runs=3, seed=5)
    assert simulate(told, 600.0, 50 * HOUR, runs=3, seed=5) != simulate(told, 600.0, 50 * HOUR, runs=3, seed=6)
    assert len({run.total for run in simulate(told, 600.0, 50 * HOUR, runs=3, seed=5)}) == 3
    never = job(1e12 * HOUR)
    (alone,) = simulate(never, 600.0, 1800.0, runs=1)
    assert alone == Spent(1800.0, 90.0, 0.0, 0.0, 0.0, 0.0, 0)
    assert simulate(never, 600.0, 1801.0, runs=1)[0].useful == 2400.0, "the last interval is whole too"
    (late,) = simulate(replace(never, saves=replace(never.saves, write=100.0)), 600.0, 1800.0, runs=1)
    assert late.total == 1800 + 3 * 30 + 70, "it ends when the storage has the last save"


def test_a_failure_before_the_storage_has_the_last_save_undoes_it():
    told = job(HOUR, pause=10.0, write=110.0, load=0.0, detect=20.0, restart=30.0)
    lost = follow(told, 600.0, 1, iter([650.0, 1e9]), np.random.default_rng(0))
    assert lost == Spent(600.0, 110.0, 650.0, 20.0, 30.0, 0.0, 1)
    kept = follow(told, 600.0, 1, iter([711.0]), np.random.default_rng(0))
    assert kept == Spent(600.0, 110.0, 0.0, 0.0, 0.0, 0.0, 0)


def test_failures_do_not_depend_on_repairs(monkeypatch):
    """However many repairs are drawn meanwhile, an interval meets the failures of any other."""
    met = []

    def watched(job, interval, count, failures, generator):
        met.append([])
        return follow(job, interval, count, (met[-1].append(each) or each for each in failures), generator)

    monkeypatch.setattr(simulation, "follow", watched)
    for interval in (300.0, 2000.0):
        simulate(BUSY["one spare"], interval, 400 * HOUR, runs=1)
    common = min(map(len, met))
    assert common > 300
    assert met[0][:common] == met[1][:common]


def test_progress_is_told_of_every_run():
    told, done = BUSY["saves that wait"], []
    simulate(told, 600.0, HOUR, runs=3, progress=done.append)
    assert done == [1, 2, 3]
    done.clear()
    simulated_interval(told, 600.0, HOUR, runs=2, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == 2 * 19


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(UserError, match=r"10 runs .* more than 5,000,000 failures, one per 1 s"):
        simulate(job(1.0, pause=0.1, load=0.1, detect=0.1, restart=0.1), 1.0, 1e7, runs=10)
    with pytest.raises(UserError, match=r"hardly|more than"):
        simulate(job(1.0, detect=1e4), 1.0, 1.0, runs=1)
    with pytest.raises(UserError, match=r"190 s beside training, longer than the interval of 100 s"):
        simulate(job(pause=10.0, write=200.0), 100.0, HOUR, runs=1)
