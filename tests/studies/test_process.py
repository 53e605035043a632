"""The process of a trial: real tiny runs, which finish, diverge, fail, and go on after a kill to the same numbers."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import signal
import time
from dataclasses import replace

import pytest
from benchmarks import faults

from anyformer import checkpoint
from anyformer.evaluation import measure, open_subject, task_of
from anyformer.studies.lengths import LENGTHS
from anyformer.studies.outcome import Ended, read_outcome
from anyformer.studies.process import HELD, holding, lay_out, run
from anyformer.studies.trials import Trial
from anyformer.tuning import AdamW


def trial_of(base, **changes):
    return Trial("base", base.but(**changes), 1, "cpu")


def outcome_of(trial, directory):
    """The outcome without what a clock or the process's memory says."""
    found = read_outcome(directory, Ended.read(directory, trial.key))
    return replace(found, tokens_per_second=None, memory=None, seconds=0.0)


def test_a_trial_finishes_and_its_numbers_are_read(base, tmp_path):
    trial = trial_of(base)
    place = tmp_path / trial.name
    lay_out(trial, place)
    assert run(place) == 0
    found = read_outcome(place, Ended.read(place, trial.key))
    assert found.status == "finished"
    assert set(found.numbers) == {"loss", "bits_per_byte", "accuracy"}
    assert (found.updates, found.tokens, len(found.training)) == (6, 6 * 4 * 32, 6)
    assert next(tokens for tokens, _ in found.curve) == 3 * 4 * 32
    assert found.largest_gradient > 0
    assert Ended.read(place, "another key") is None
    before = (place / "outcome.json").stat().st_mtime_ns
    assert run(place) == 0
    assert (place / "outcome.json").stat().st_mtime_ns == before


def test_a_trained_model_is_asked_at_other_lengths_once(base, tmp_path):
    """By the numbers that `anyformer eval` gives; when a length is added, without another update."""
    trial = trial_of(base)
    place = tmp_path / trial.name
    lay_out(trial, place)
    assert run(place) == 0
    assert outcome_of(trial, place).lengths == {}
    metrics = (place / "metrics.jsonl").read_bytes()
    lay_out(replace(trial, lengths=(16, 64)), place)
    assert run(place) == 0
    found = outcome_of(trial, place)
    assert set(found.lengths) == {16, 64}
    subject = open_subject(place)
    own = measure(task_of(subject, (), {"length": 64})).evaluated
    assert found.number_at(64, "loss", math.inf) == pytest.approx(own.loss, abs=0.05), "all held out, not final_tokens of it"
    assert found.lengths[64]["loss"] != found.lengths[16]["loss"]
    assert (place / "metrics.jsonl").read_bytes() == metrics
    before = (place / LENGTHS).stat().st_mtime_ns
    assert run(place) == 0
    assert (place / LENGTHS).stat().st_mtime_ns == before
    whole = replace(trial, run=trial.run.but(evaluation=trial.run.evaluation.but(final_tokens=10**6)), lengths=(64,))
    lay_out(whole, tmp_path / "whole")
    assert run(tmp_path / "whole") == 0
    assert outcome_of(whole, tmp_path / "whole").lengths[64]["loss"] == pytest.approx(own.loss, abs=1e-5)


def test_a_diverging_trial_says_why(base, tmp_path):
    trial = trial_of(base, optimiser=AdamW(learning_rate=1e30), clip=None, steps=8)
    place = tmp_path / trial.name
    lay_out(trial, place)
    assert run(place) == 1
    ended = Ended.read(place, trial.key)
    assert ended.status == "diverged"
    assert "finite" in ended.reason
    assert read_outcome(place, ended).numbers == {}


def test_a_failing_trial_says_why_and_is_tried_again(base, tmp_path):
    trial = trial_of(base, data=base.data.but(paths=(str(tmp_path / "later.py"),)))
    place = tmp_path / trial.name
    lay_out(trial, place)
    assert run(place) == 1
    assert Ended.read(place, trial.key).status == "failed"
    assert "later.py" in Ended.read(place, trial.key).reason
    (tmp_path / "later.py").write_text("x = 1\n" * 2000)
    assert run(place) == 0
    assert Ended.read(place, trial.key).status == "finished"


def test_a_disk_that_fills_costs_one_trial_which_goes_on_to_the_same_numbers(base, tmp_path, monkeypatch):
    trial, real = trial_of(base), checkpoint.write
    whole, place = tmp_path / "whole", tmp_path / trial.name

    def fills(given, directory):
        with faults.on(faults.Disk(5000, errno.ENOSPC)):
            return real(given, directory)

    monkeypatch.setattr(checkpoint, "write", fills)
    lay_out(trial, place)
    assert run(place) == 1
    ended = Ended.read(place, trial.key)
    assert ended.status == "failed"
    assert "the disk is full" in ended.reason
    monkeypatch.undo()
    lay_out(trial, whole)
    assert (run(place), run(whole)) == (0, 0)
    assert outcome_of(trial, place) == outcome_of(trial, whole)


def test_a_trial_that_another_process_has_is_left_alone(base, tmp_path):
    trial = trial_of(base)
    place = tmp_path / trial.name
    lay_out(trial, place)
    with holding(place):
        assert run(place) == HELD
    assert sorted(path.name for path in place.iterdir()) == ["trial.json", "trial.toml"]


@pytest.mark.parametrize("after", [0, 3, 5])
def test_a_killed_trial_goes_on_to_the_same_numbers(base, tmp_path, after):
    """SIGKILL once so many updates are in the metrics: before the first checkpoint, after one, at the end."""
    trial = trial_of(base)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for place in (whole, killed):
        lay_out(trial, place)
    assert run(whole) == 0
    process = multiprocessing.get_context("fork").Process(target=run, args=(killed,))
    process.start()
    metrics, deadline = killed / "metrics.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and process.is_alive():
        if after == 0 or (metrics.exists() and len(metrics.read_text().splitlines()) >= after):
            break
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert run(killed) == 0
    assert outcome_of(trial, killed) == outcome_of(trial, whole)
    assert json.loads((killed / "outcome.json").read_text()) == json.loads((whole / "outcome.json").read_text())
