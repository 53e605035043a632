"""Arms that take as long for an update as the base: by a made-up clock, and by this machine's."""

from __future__ import annotations

import json

import pytest

from anyformer.costs import UnmatchedError, budget_of
from anyformer.describe import DescriptionError
from anyformer.studies import Matching, SizeGate, forecast, matched_time, resolve_arms
from anyformer.studies.matched_time import KEPT, Turns, aim, in_turns, kept_in, matched_in_seconds


def clock(slower=1.3, calls=1e-5, rate=2e9, noise=()):
    """Seconds of calls and of FLOPs, of which the arm's come `slower`; `noise`: factors of the first measurements."""
    asked = []
    left = list(noise)

    def measured(base, arm):
        asked.append(arm.architecture)
        one, other = (calls + budget_of(each.architecture, length=base.length).training_flops / rate for each in (base, arm))
        ratio = slower * other / one * (left.pop(0) if left else 1.0)
        return Turns(one, one * ratio, ratio)

    measured.asked = asked
    return measured


@pytest.fixture
def timed(study):
    return study.but(match=Matching(by=("seconds",), multiple=4), arms={"gelu": study.arms["gelu"]})


@pytest.mark.parametrize("made", [clock(), clock(slower=0.7), clock(calls=1e-4, slower=1.08), clock(slower=1.02)])
def test_an_arm_is_resized_until_it_takes_as_long_and_is_measured_again(timed, made):
    run = timed.arms["gelu"].applied(timed.base)
    found, moved = matched_in_seconds(run, timed.base, timed.match, made)
    assert made(timed.base, found).off <= 0.05
    base, arm = moved.costs["seconds"]
    assert arm / base == pytest.approx(1, abs=0.05)
    assert made.asked[-2] == made.asked[-3] == found.architecture, "what is accepted was measured twice"
    assert "measured in turns" in str(moved)
    assert ("nothing moved" in str(moved)) == (found == run)


def test_a_lucky_measurement_is_not_believed(timed):
    run = timed.arms["gelu"].applied(timed.base)
    made = clock(slower=1.4, noise=[1 / 1.4])
    found, moved = matched_in_seconds(run, timed.base, timed.match, made)
    assert found != run
    assert moved.off <= 0.05


def test_what_never_takes_as_long_is_refused_with_the_nearest(timed):
    with pytest.raises(
        UnmatchedError, match=r"takes as long as the base's .* ms an update, within 5.0%\. The nearest is width"
    ):
        matched_in_seconds(timed.arms["gelu"].applied(timed.base), timed.base, timed.match, clock(slower=50, calls=1.0))


def test_the_next_size_lies_between_those_that_were_too_fast_and_too_slow():
    assert aim([(2.0, 0.5)]) == pytest.approx(1.5)
    assert aim([(2.0, 0.5), (1.5, 0.3)]) == pytest.approx(1.5 - 0.3 / 0.4)
    assert aim([(2.0, 0.5), (1.0, -0.5)]) == pytest.approx(1.5)


def test_sizes_are_measured_once_for_a_directory(timed, tmp_path):
    made = clock()
    arms = resolve_arms(timed, kept_in(timed, tmp_path, made))
    count = len(made.asked)
    assert resolve_arms(timed, kept_in(timed, tmp_path, made)) == arms
    assert len(made.asked) == count
    assert len(json.loads((tmp_path / KEPT).read_text())) == 1
    other = timed.but(threads=2)
    resolve_arms(other, kept_in(other, tmp_path, made))
    assert len(made.asked) > count, "with other threads it takes another time"


def test_this_machine_is_measured_in_turns(timed, monkeypatch):
    monkeypatch.setattr(matched_time, "ROUNDS", 3)
    order = []

    class Step:
        def __init__(self, architecture, *rest):
            self.name = architecture.output_stack.depth

        def update(self):
            order.append(self.name)

    deep = timed.base.but(
        architecture=timed.base.architecture.but(decoder=timed.base.architecture.decoder.but(order="layer*4"))
    )
    found = in_turns(timed.base, deep)
    assert min(found.base, found.arm, found.ratio) > 0
    monkeypatch.setattr(matched_time, "TrainingStep", Step)
    in_turns(timed.base, deep)
    assert order == [4, 2, 2, 4] * 2 + [4, 2]


def test_a_forecast_leaves_the_sizes_and_smaller_sizes_are_refused(timed):
    assert forecast(timed).arms[1].arm.moved is None
    with pytest.raises(DescriptionError, match="seconds are measured at one size"):
        timed.but(gates=(SizeGate(size=0.5, keep=1),))
    with pytest.raises(DescriptionError, match="measured, beside 'params', which is counted"):
        Matching(by=("seconds", "params"))
    assert (Matching(by=("seconds",)).tolerance, Matching(by=("params",)).tolerance) == (0.05, 0.005)
