"""Goodput in closed form against what papers print, brute force, and what must hold of any job."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.describe import UserError
from anyformer.planning.failures import PUBLISHED, Cause, Failures, Saves, TrainingJob, causes_of, saves
from anyformer.planning.goodput import best_interval, daly, enough_spares, erlang_b, expected, waiting, young
from failing_jobs import HOUR, MINUTE, job, jobs


@pytest.mark.parametrize(("mtbf", "minutes"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_dalys_interval_is_that_of_his_paper(mtbf, minutes):
    """Figures 3 to 5: a dump of 5 min, and these minutes between failures."""
    assert daly(5 * MINUTE, mtbf * MINUTE) / MINUTE == pytest.approx(minutes, abs=0.05 if minutes < 10 else 0.5)


def test_youngs_interval_is_the_first_term_of_dalys():
    assert young(2, 100) == 20
    assert daly(1e-6, 1e6) == pytest.approx(young(1e-6, 1e6), rel=1e-5)
    assert daly(1, 0.4) == 0.4, "beyond 2 M it is M"


@given(st.floats(1e-6, 4), st.floats(0, 0.5))
def test_dalys_interval_loses_almost_nothing_against_the_best(pause, recovery):
    """At any pause, in units of M: the goodput at his interval against the highest of 2,000 intervals around it."""
    told = job(1.0, pause=pause, load=0.0, detect=recovery, restart=0.0)
    given = daly(pause, 1.0)
    highest = max(expected(told, given * factor).goodput for factor in np.geomspace(0.05, 20, 2000))
    assert expected(told, given).goodput > highest * (1 - 2e-3)


@given(jobs())
def test_shares_are_shares(told):
    spent = expected(told, best_interval(told))
    assert 0 <= spent.goodput <= 1
    assert spent.total == pytest.approx(1)
    assert min(spent.useful, spent.saving, spent.lost, spent.detection, spent.restart, spent.waiting) >= 0
    if told.mtbf > told.recovery / 100 + told.saves.write:
        assert spent.goodput > 0


@given(jobs(), st.floats(1, 10), st.floats(0.1, 10))
def test_rarer_failures_are_never_worse(told, times, factor):
    interval = max(best_interval(told) * factor, told.late)
    rarer = replace(told, failures=replace(told.failures, mtbf=told.failures.mtbf * times))
    assert expected(rarer, interval).goodput >= expected(told, interval).goodput * (1 - 1e-12)
    assert expected(rarer, best_interval(rarer)).goodput >= expected(told, best_interval(told)).goodput * (1 - 2e-3)


@given(jobs(st.integers(0, 20)))
def test_more_spares_are_never_worse(told):
    interval = best_interval(told)
    more = replace(told, failures=replace(told.failures, spares=told.failures.spares + 1))
    always = replace(told, failures=replace(told.failures, spares=None))
    few, one_more, all_of_them = (expected(each, interval).goodput for each in (told, more, always))
    assert few <= one_more <= all_of_them


@given(jobs(st.just(0)))
def test_enough_spares_are_the_fewest(told):
    found = enough_spares(told)
    shares = [waiting(replace(told, failures=replace(told.failures, spares=spares))) for spares in (found, max(found - 1, 0))]
    assert shares[0] < 1e-3
    assert found == 0 or shares[1] >= 1e-3


def test_failures_of_software_need_no_spare():
    told = job(HOUR, repair=24 * HOUR, causes=(Cause("disk", 0.1), Cause("software", 0.9, repaired=False)))
    assert enough_spares(told) == enough_spares(job(10 * HOUR, repair=24 * HOUR)) < enough_spares(job(HOUR, repair=24 * HOUR))


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (3, 2.0), (12, 8.0)])
def test_erlangs_formula_is_the_chain_of_its_states(servers, load):
    """Arrivals at the rate `load`, services at 1: the stationary distribution of the number busy, by its linear equations."""
    rates = np.zeros((servers + 1, servers + 1))
    for busy in range(servers):
        rates[busy, busy + 1], rates[busy + 1, busy] = load, busy + 1
    np.fill_diagonal(rates, -rates.sum(axis=1))
    system = np.vstack([rates.T, np.ones(servers + 1)])
    share = np.linalg.lstsq(system, np.eye(servers + 2)[-1], rcond=None)[0]
    assert erlang_b(servers, load) == pytest.approx(share[-1])


def test_a_job_without_spares_waits_for_every_repair():
    """In a long run a failure costs M of running and then the repair."""
    spent = expected(job(2 * HOUR, repair=6 * HOUR, spares=0), HOUR)
    assert spent.waiting == pytest.approx(6 / (2 + 6))
    half = (Cause("disk", 0.5), Cause("software", 0.5, repaired=False))
    assert expected(job(2 * HOUR, repair=6 * HOUR, spares=0, causes=half), HOUR).waiting == pytest.approx(3 / (2 + 3))


def test_the_goodput_is_that_of_a_job_followed_by_hand():
    """M = 1 h, 30 min of work and a save of 6 min, recovery of 12 min: by the chances of each attempt."""
    told = job(HOUR, pause=360.0, load=120.0, detect=360.0, restart=240.0)
    succeeds, recovers = math.exp(-36 / 60), math.exp(-12 / 60)
    attempt, recovery = (1 - succeeds) * 60, (1 - recovers) * 60 / recovers
    minutes = (attempt + (1 - succeeds) * recovery) / succeeds
    assert expected(told, 1800.0).goodput == pytest.approx(30 / minutes)
    assert expected(told, 1800.0).saving == pytest.approx(6 / minutes)
    assert expected(told, 1800.0).detection == pytest.approx(1 - math.exp(-6 / 60))
    assert expected(told, 1800.0).restart == pytest.approx(math.exp(-6 / 60) - math.exp(-12 / 60))


def test_a_save_in_the_background_is_late():
    """Two saves that the storage has 10 s after training goes on: the first after a recovery takes L + v, each other one L."""
    told = job(HOUR, pause=1.0, write=11.0)
    early = job(HOUR, pause=1.0)
    ratio = expected(told, 600.0).goodput / expected(early, 600.0).goodput
    assert ratio == pytest.approx(math.exp(-10 / HOUR))


@pytest.mark.parametrize("scale", [0.3, 0.1, 0.01])
def test_the_first_order_is_that_of_the_effective_training_time_ratio(scale):
    """(1 - N r (u + t / 2)) / (1 + w / t), for restarts of u and writes of w (Kokolis et al. 2025, arXiv 2410.21680)."""
    restart, interval, write = 300.0 * scale, 3600.0 * scale, 60.0 * scale
    told = job(10 * HOUR, pause=write, load=0.0, detect=0.0, restart=restart)
    theirs = (1 - (restart + interval / 2) / told.mtbf) / (1 + write / interval)
    assert expected(told, interval).goodput == pytest.approx(
        theirs, rel=((restart + interval) / told.mtbf) ** 2 + write / told.mtbf
    )


def test_the_best_interval_is_in_whole_steps_and_longer_than_a_save():
    told = job(3 * HOUR, pause=1.0, write=100.0)
    assert best_interval(told) == pytest.approx(daly(1.0, 3 * HOUR))
    assert best_interval(told, 7.0) == 147.0
    assert best_interval(told, 400.0) == 400.0
    slow = job(3 * HOUR, pause=1.0, write=1001.0)
    assert best_interval(slow) == 1000.0
    assert best_interval(slow, 300.0) == 1200.0, "the save has ended before the next begins"


def test_saves_cost_what_is_moved():
    waited = saves(8e12, 1e9, 2e12, background=False)
    assert waited == Saves(pause=4.0, write=4.0, load=4.0)
    assert saves(8e12, 1e9, 2e12, background=True) == Saves(pause=1.0, write=4.0, load=4.0)
    assert saves(8e12, 1e9, 2e12, background=True, pause=0.5) == Saves(0.5, 4.0, 4.0)
    assert saves(8e12, 9e9, 2e12, background=True) == Saves(9.0, 9.0, 4.0), "it is not written before it is copied"
    assert saves(8e12, 1e9, 2e12, background=False, pause=20.0) == Saves(20.0, 20.0, 4.0)


def test_a_job_fails_as_often_as_all_its_devices():
    told = TrainingJob(16384, Failures(50_000 * HOUR), Saves(3, 3, 3))
    assert told.mtbf / HOUR == pytest.approx(3.05, abs=0.005)
    assert told.recovery == 600 + 300 + 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Failures(0.0), "mtbf .* above 0, got 0.0; Llama 3 reports 1.82e"),
        (lambda: Failures(math.inf), "got inf"),
        (lambda: Failures(math.nan), "got nan"),
        (lambda: Failures(1.0, detect=-1.0), "detect .* 0 or more, got -1.0"),
        (lambda: Failures(1.0, spares=-1), "spares .* got -1; None"),
        (lambda: Failures(1.0, causes=(Cause("disk", 0.5),)), "add up to 1, got 0.5"),
        (lambda: Cause("disk", 1.5), "'disk' .* from 0 to 1, got 1.5"),
        (lambda: Saves(2.0, 1.0, 0.0), "1 s cannot pause training for longer, 2 s"),
        (lambda: Saves(0.0, 1.0, -1.0), "load .* got -1.0"),
        (lambda: TrainingJob(0, Failures(1.0), Saves(0, 0, 0)), "1 accelerator or more, got 0"),
        (lambda: causes_of("llama-3.1-40b"), "no causes .* 'llama-3.1-40b'; did you mean 'llama-3.1-405b'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(make, says):
    with pytest.raises(UserError, match=says):
        make()


def test_published_interruptions_are_those_of_their_sources():
    """Llama 3: one in three hours, 50,000 hours for a device; the counts of its table are all unexpected interruptions."""
    llama = PUBLISHED["llama-3.1-405b"]
    assert llama.device_mtbf / HOUR == pytest.approx(50_678, abs=1)
    assert sum(count for _, count, _ in llama.row["causes"]) == llama.failures == 419
    assert llama.failures + llama.row["planned"] == 466
    assert sum(cause.share for cause in llama.causes) == pytest.approx(1)
    assert Failures(1.0, causes=llama.causes).replaced == pytest.approx(1 - (54 + 35 + 7 + 2) / 419)
    assert PUBLISHED["rsc-1"].device_mtbf / 16384 / HOUR == pytest.approx(1.8, abs=0.01)
