"""Batches without a finite loss are left out, spikes are gone back for: as if those batches had never been in the data."""

from __future__ import annotations

import math
import random

import pytest
from benchmarks.kills import outcome, run_of
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import change_all
from anyformer.objectives import Examples
from anyformer.objectives.feed import TextFeed
from anyformer.training import NonFiniteError, resume, train
from anyformer.training.instability import Past, ReportSpikes, RewindSpikes, SpikeError
from anyformer.training.journal import read_metrics
from anyformer.training.passes import MicroBatchLoss
from anyformer.training.step import Updates

QUIET = Console(quiet=True)
BATCH = 4


@pytest.fixture
def run(tmp_path):
    """Batches that are all alike, but for those that a test spoils."""
    return change_all(run_of("dense", tmp_path, steps=24, every=5), {"evaluation.every": 100, "checkpoints.keep": 1})


@pytest.fixture
def spoil(monkeypatch):
    """`spoil({batch: factor})` multiplies the loss of these batches of the data."""
    summed = MicroBatchLoss.summed

    def spoil(factors):
        def spoilt(self, given, key):
            total, loads = summed(self, given, key)
            return total * factors.get(int(Examples.of(given).rows[0]) // BATCH, 1.0), loads

        monkeypatch.setattr(MicroBatchLoss, "summed", spoilt)

    return spoil


def leave_out(monkeypatch, *batches):
    """Take batches out of the data."""
    at = TextFeed.at

    def shifted(feed, step, *more):
        for batch in sorted(batches):
            step += step >= batch
        return at(feed, step, *more)

    monkeypatch.setattr(TextFeed, "at", shifted)


def crash(monkeypatch, call):
    """Let the process break down at one of its updates."""
    update, calls = Updates.update, []

    def breaks(*given, **more):
        calls.append(1)
        if len(calls) == call:
            raise RuntimeError("crash")
        return update(*given, **more)

    monkeypatch.setattr(Updates, "update", breaks)


def losses(directory):
    return [row["loss"] for row in read_metrics(directory) if row["kind"] == "train"]


def weights(directory):
    return outcome(directory)["files"]["checkpoints/step-00000024/model.safetensors"]


def rows_of(directory, kind):
    return [row for row in read_metrics(directory) if row["kind"] == kind]


def test_by_default_the_run_stops_and_names_step_layer_and_batch(run, tmp_path, spoil):
    spoil({6: math.nan})
    with pytest.raises(NonFiniteError, match=r"step 6: the loss is nan.*Nothing was updated.*non_finite"):
        train(run, tmp_path / "run", console=QUIET)
    again = resume(tmp_path / "run", {"non_finite": {"kind": "skip"}}, console=QUIET)
    assert again.finished, "what the run does about it may change"


def test_a_batch_left_out_is_as_if_it_were_not_in_the_data(run, tmp_path, spoil, monkeypatch):
    run = change_all(run, {"non_finite": {"kind": "skip", "most": 2}})
    with monkeypatch.context() as patched:
        leave_out(patched, 6, 12)
        train(run, tmp_path / "without", console=QUIET)
    spoil({6: math.nan, 12: math.inf})
    trained = train(run, tmp_path / "run", console=QUIET)
    assert losses(tmp_path / "run") == losses(tmp_path / "without")
    assert weights(tmp_path / "run") == weights(tmp_path / "without")
    assert [(row["step"], row["batch"]) for row in rows_of(tmp_path / "run", "skipped")] == [(7, 6), (12, 12)]
    assert "no finite loss or gradient: 2" in "\n".join(trained.summary.lines())
    with monkeypatch.context() as patched:
        crash(patched, 14)
        with pytest.raises(RuntimeError, match="crash"):
            train(run, tmp_path / "again", console=QUIET)
    resume(tmp_path / "again", console=QUIET)
    assert outcome(tmp_path / "again") == outcome(tmp_path / "run")


def test_one_batch_more_than_may_be_left_out_stops_the_run(run, tmp_path, spoil):
    spoil({3: math.nan, 4: math.nan, 9: math.nan})
    with pytest.raises(NonFiniteError, match=r"2 batches were left out before it"):
        train(change_all(run, {"non_finite": {"kind": "skip", "most": 2}}), tmp_path / "run", console=QUIET)
    assert len(losses(tmp_path / "run")) == 7


def test_weights_that_are_not_finite_stop_the_run_at_once(run, tmp_path, monkeypatch):
    update, calls = Updates.update, []

    def breaks(self, *given):
        calls.append(1)
        if len(calls) == 4:
            next(self.model.parameters()).data.fill_(math.nan)
        return update(self, *given)

    monkeypatch.setattr(Updates, "update", breaks)
    with pytest.raises(NonFiniteError, match=r"the weight embedding\.weight is not finite.*0 batches were left out"):
        train(change_all(run, {"non_finite": {"kind": "skip"}}), tmp_path / "run", console=QUIET)


SPIKES = {"spikes": {"kind": "rewind", "window": 8, "above": 8.0}}


def test_a_spike_is_gone_back_for_and_its_batches_are_as_if_not_in_the_data(run, tmp_path, spoil, monkeypatch):
    run = change_all(run, SPIKES)
    with monkeypatch.context() as patched:
        leave_out(patched, 10, 11, 12, 13)
        train(run, tmp_path / "without", console=QUIET)
    spoil({13: 50.0})
    trained = train(run, tmp_path / "run", console=QUIET)
    assert losses(tmp_path / "run") == losses(tmp_path / "without")
    assert weights(tmp_path / "run") == weights(tmp_path / "without")
    (row,) = rows_of(tmp_path / "run", "rewound")
    assert (row["step"], row["spiked"], row["batch"], row["batches"]) == (11, 14, 10, 4)
    assert row["loss"] > 20 * row["median"]
    assert "loss spikes: 1; the run went back for 1 of them" in trained.summary.lines()


@pytest.mark.parametrize("call", [16, pytest.param(14, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)])
def test_going_back_is_resumed_to_the_bit(run, tmp_path, spoil, monkeypatch, call):
    """A crash after going back, before the next checkpoint; at the spike; and behind the next checkpoint."""
    run = change_all(run, {**SPIKES, "average": {"kind": "ema", "decay": 0.9}})
    spoil({13: 50.0})
    train(run, tmp_path / "whole", console=QUIET)
    with monkeypatch.context() as patched:
        crash(patched, call)
        with pytest.raises(RuntimeError, match="crash"):
            train(run, tmp_path / "run", console=QUIET)
    resume(tmp_path / "run", console=QUIET)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_checkpoint_made_by_a_stop_does_not_change_where_the_run_goes_back_to(run, tmp_path, spoil, monkeypatch):
    run = change_all(run, SPIKES)
    spoil({13: 50.0})
    train(run, tmp_path / "whole", console=QUIET)
    train(change_all(run, {"steps": 12, "schedule": {"kind": "constant", "warmup": 2}}), tmp_path / "run", console=QUIET)
    assert {10, 12} <= set(checkpoint.steps(tmp_path / "run")), "the regular one is kept beside the newest"
    resume(tmp_path / "run", {"steps": 24}, console=QUIET)
    assert rows_of(tmp_path / "run", "rewound")[0]["step"] == rows_of(tmp_path / "whole", "rewound")[0]["step"] == 11


def test_a_spike_before_the_first_checkpoint_goes_back_to_the_beginning(run, tmp_path, spoil, monkeypatch):
    run = change_all(run, {**SPIKES, "checkpoints.every": 20})
    with monkeypatch.context() as patched:
        leave_out(patched, *range(13 + 1))
        train(run, tmp_path / "without", console=QUIET)
    spoil({13: 50.0})
    train(run, tmp_path / "run", console=QUIET)
    assert weights(tmp_path / "run") == weights(tmp_path / "without")


def test_spikes_are_bounded_or_only_reported(run, tmp_path, spoil):
    spoil({9: 50.0, 14: 50.0, 20: 50.0})
    bounded = change_all(run, {"spikes": {"kind": "rewind", "window": 8, "most": 2}})
    with pytest.raises(SpikeError, match=r"loss spike: .* above the running median .*2 times.*spikes\.most") as ended:
        train(bounded, tmp_path / "bounded", console=QUIET)
    assert ended.value.exit_code == 1, "not 2, which is of mistakes in what was given"
    told = train(change_all(run, {"spikes": {"kind": "report", "window": 8}}), tmp_path / "told", console=QUIET)
    assert "loss spikes: 3" in told.summary.lines()
    assert [row["step"] for row in rows_of(tmp_path / "told", "spike")] == [10, 15, 21]


def test_what_a_spike_is():
    chance = random.Random(0)
    noise = [3.0 + chance.gauss(0, 0.1) for _ in range(200)]
    spikes = ReportSpikes()
    assert not any(spikes.spike(noise[:n], noise[n]) for n in range(200))
    assert spikes.spike(noise, 4.5).deviations == pytest.approx(15, rel=0.3)
    assert spikes.spike(noise[:15], 100.0) is None, "too few to compare with"
    assert spikes.spike([2.0] * 64, 2.15) is None, "of a flat curve a deviation is a hundredth, and 7.5 are no spike"
    assert spikes.spike([2.0] * 64, 2.17).deviations == pytest.approx(8.5)
    assert spikes.spike([2.0] * 64, 2.1) is None, "a flat curve has no spikes"
    assert spikes.spike([2.0] * 64, 2.2) is not None
    assert spikes.spike([*[1.0] * 100, *[3.0] * 64], 3.1) is None, "only the latest ones are compared"
    outliers = [*noise[:60], 50.0, 60.0, 70.0]
    assert spikes.spike(outliers, 5.0) is not None, "a median does not mind outliers"
    falling = [10 / (n + 1) for n in range(100)]
    assert not any(spikes.spike(falling[:n], falling[n]) for n in range(100))


def test_the_past_is_plain_data():
    past = Past(passed=3, skipped=1, spikes=2, rewound=1, losses=(1.5, 2.25))
    assert Past.of(past.facts()["past"]) == past
    assert Past().facts() == {}
    assert Past.of(None) == Past()
    assert RewindSpikes().rewinds == 3
    assert past.lines()[1:] == ["loss spikes: 2; the run went back for 1 of them"]
    assert past.back(4, Past(losses=(2.5,))) == Past(passed=7, skipped=1, spikes=2, rewound=2, losses=(2.5,))
