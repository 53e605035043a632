"""A disk that fails at any moment of a save loses nothing, and training says in words where it went wrong."""

from __future__ import annotations

import errno
import json
import resource
import sys
import threading
from pathlib import Path

import pytest
from benchmarks import faults
from benchmarks.kills import outcome, run_of
from rich.console import Console

from anyformer import checkpoint
from anyformer.files import PlaceError
from anyformer.training import resume, train
from anyformer.training.held_out import corpus_of
from anyformer.training.saving import Saver, UnsavedError, Written
from anyformer.training.step import Updates

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> faults.Place:
    return faults.trained(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("number", faults.FAULTS)
def test_a_save_that_fails_at_any_moment_leaves_the_older_checkpoint(place, number):
    assert faults.fail(place, 8, number) == []


def test_the_committed_result_is_that_all_is_noticed():
    found = json.loads(faults.RESULT.read_text())
    assert found["failures_of_the_disk"] == {errno.errorcode[number]: [] for number in faults.FAULTS}
    assert (found["offsets"], found["cuts"], found["flips"], found["not_noticed"]) == (50, 200, 1000, [])


@pytest.mark.slow
def test_every_fault_of_the_committed_result(place):
    assert [faults.fail(place, faults.OFFSETS, number) for number in faults.FAULTS] == [[], [], []]
    assert faults.damage(place, faults.CUTS, faults.FLIPS) == []


def test_cuts_and_flips_are_noticed_and_named(place):
    assert faults.damage(place, cuts=30, flips=60, seed=1) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_writer_that_fails_stops_training_in_words_and_the_run_goes_on_later(tmp_path, monkeypatch, number):
    run = run_of("dense", tmp_path, steps=8, every=3)
    train(run, tmp_path / "whole", console=QUIET)
    real = checkpoint.write

    def fails(given: checkpoint.Contents, directory: Path) -> None:
        if given.facts["step"] < 6:
            return real(given, directory)
        with faults.on(faults.Disk(5000, number)):
            return real(given, directory)

    monkeypatch.setattr(checkpoint, "write", fails)
    with pytest.raises(UnsavedError, match=r"step-00000006: cannot be written.*(?s:.*)step 3 is whole.*train --resume"):
        train(run, tmp_path / "run", console=QUIET)
    monkeypatch.undo()
    assert checkpoint.latest(tmp_path / "run") == (checkpoint.directory_of(tmp_path / "run", 3), [])
    resume(tmp_path / "run", console=QUIET)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_a_limit_of_the_system_itself_is_met_in_words(place, tmp_path):
    """No stand-in: the kernel refuses to let any file grow beyond 4 KiB."""
    model, _, _ = checkpoint.load(place.newest)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(PlaceError, match="larger than the system allows"):
            checkpoint.save(model, tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_writer_is_raised_at_the_next_look_once():
    def fails() -> None:
        raise PlaceError("full")

    with Saver(background=True, begun=0) as saver:
        saver.save(1, lambda take: lambda: Written(1))
        saver.save(2, lambda take: fails)
        with pytest.raises(PlaceError, match="full"):
            saver.then(lambda: None)
        saver.check()
        assert (saver.begun, saver.written, saver.saves) == (2, 1, 2)


@pytest.mark.parametrize("background", [True, False])
def test_files_are_those_of_the_moment_whether_training_waits_or_not(tmp_path, monkeypatch, background):
    """Also where no memory is left for a copy, so that training waits for each write."""
    run = run_of("dense", tmp_path, steps=6, every=2)
    train(run, tmp_path / "whole", console=QUIET)
    monkeypatch.setattr("anyformer.training.loop.room_for_copy", lambda run, directory, device: background)
    train(run, tmp_path / "run", console=QUIET)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_slow_writer_writes_the_weights_of_its_step_though_later_updates_changed_them(tmp_path, monkeypatch):
    run = run_of("dense", tmp_path, steps=6, every=2)
    train(run, tmp_path / "whole", console=QUIET)
    real, update, updated = checkpoint.write, Updates.update, threading.Event()

    def slow(given: checkpoint.Contents, directory: Path) -> None:
        if given.facts["step"] < 6:
            updated.clear()
            assert updated.wait(60), "training goes on while the writer waits"
        real(given, directory)

    def told(*given, **more):
        outcome = update(*given, **more)
        updated.set()
        return outcome

    monkeypatch.setattr(checkpoint, "write", slow)
    monkeypatch.setattr(Updates, "update", told)
    train(run, tmp_path / "run", console=QUIET)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_damaged_prepared_data_is_made_again_before_training(place, tmp_path):
    run = run_of("dense", tmp_path, steps=2, every=2)
    train(run, tmp_path / "first", console=QUIET)
    tokens = next(path for path in sorted(corpus_of(run).directory.glob("train-0*.bin")))
    good = tokens.read_bytes()
    tokens.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.warns(UserWarning, match=r"damaged cache is made again.*train-00000\.bin"):
        train(run, tmp_path / "second", console=QUIET)
    assert outcome(tmp_path / "second") == outcome(tmp_path / "first")
    assert tokens.read_bytes() == good
