"""A run's directory: one process at a time, refused before work where it can be known, whole where the disk fills later."""

from __future__ import annotations

import os
import re
from datetime import datetime
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console
from safetensors import SafetensorError

from anyformer import checkpoint
from anyformer.checkpoint.history import kept
from anyformer.costs import scaled
from anyformer.costs.memory_check import NotEnoughMemoryError
from anyformer.describe import UserError, change_all
from anyformer.files import PlaceError
from anyformer.training import loop, place, resume, train
from anyformer.training.journal import RunDirectoryError, check_new, read_metrics
from anyformer.training.place import HeldError, checkpoint_bytes, held, holding
from anyformer.training.saving import UnsavedError

QUIET = Console(quiet=True)


def test_a_directory_is_held_by_one_process_at_a_time(tiny, tmp_path):
    train(tiny, tmp_path / "run", console=QUIET)
    with (
        holding(tmp_path / "run"),
        pytest.raises(
            HeldError, match=rf"process {os.getpid()} trains in this directory; wait until it has ended, or stop it$"
        ),
    ):
        resume(tmp_path / "run", {"steps": 10}, console=QUIET)
    assert not (tmp_path / "run" / ".lock").exists()
    assert resume(tmp_path / "run", {"steps": 10}, console=QUIET).step == 10


def test_a_directory_that_became_another_run_before_it_is_held_is_refused(tmp_path):
    """Two processes find the same directory free, and one has made its run in it by the time the other one holds it."""
    looks = []

    def check(directory):
        looks.append(1)
        if len(looks) == 2:
            (directory / "run.toml").touch()
        check_new(directory)

    with pytest.raises(RunDirectoryError, match="already holds a run"), held(tmp_path / "run", "", check):
        pytest.fail("the other one's run would be written over")
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_directory_that_holds_a_run_is_refused_before_it_is_held(tmp_path):
    (tmp_path / "run.toml").touch()
    with (
        holding(tmp_path),
        pytest.raises(RunDirectoryError, match="already holds a run"),
        held(tmp_path, "", check_new),
    ):
        pytest.fail("it is another one's run")


def test_a_process_that_was_killed_holds_nothing(tmp_path):
    (tmp_path / ".lock").write_text("12345")
    with holding(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


@pytest.mark.parametrize("out", ["/proc/foo", "file/run"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tiny, tmp_path, monkeypatch, out):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(loop, "measured_host", lambda device, plan: pytest.fail("work was done"))
    with pytest.raises(PlaceError, match="cannot be written"):
        train(tiny, tmp_path / out, console=QUIET)


def test_too_little_room_is_refused_before_any_work(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "corpus_together", lambda run, ranks: pytest.fail("work was done"))
    monkeypatch.setattr(place.shutil, "disk_usage", lambda path: SimpleNamespace(free=3 * checkpoint_bytes(tiny) - 1))
    with pytest.raises(PlaceError, match=r"2 kept, the best one and the one being written.*checkpoints\.keep=1"):
        train(tiny, tmp_path / "run", console=QUIET)
    with pytest.raises(PlaceError, match=r"1 kept.* another disk$"):
        train(change_all(tiny, {"checkpoints.keep": 1}), tmp_path / "run", console=QUIET)
    with pytest.raises(NotEnoughMemoryError):  # which is held against what there is before the disk
        train(change_all(tiny, {"batch": 2**30}), tmp_path / "run", console=QUIET)
    assert not (tmp_path / "run").exists()


def test_those_kept_for_ever_need_room_too(tiny, tmp_path, monkeypatch):
    """Of 100 updates, multiples of 6 are saved by any rule, as the best one or at a stop: sixteen of them at most."""
    run = change_all(tiny, {"steps": 100, "checkpoints.every": 4, "checkpoints.keep_every": 6})
    assert run.checkpoints.forever(100) == len(kept(dict.fromkeys(range(101)), keep=1, every=6) - {100})
    one = checkpoint_bytes(run)
    monkeypatch.setattr(place.shutil, "disk_usage", lambda path: SimpleNamespace(free=20 * one))
    said = place.check_space(tmp_path, run)
    assert said.startswith(
        f"checkpoints: {scaled(one)}B each, {scaled(20 * one)}B of disk at most (2 kept, 16 for ever, the best"
    )
    monkeypatch.setattr(place.shutil, "disk_usage", lambda path: SimpleNamespace(free=20 * one - 1))
    with pytest.raises(PlaceError, match=r"2 kept, 16 for ever.*or raise checkpoints\.keep_every"):
        place.check_space(tmp_path, run)


def test_what_a_save_costs_is_told_and_stands_in_the_metrics_and_the_summary(tiny, tmp_path):
    said = Console(record=True, file=StringIO(), width=1000)
    trained = train(change_all(tiny, {"checkpoints.store": f"file://{tmp_path}/bucket"}), tmp_path / "run", console=said)
    lines = said.export_text()
    assert re.search(r"checkpoints: [\d.]+ kB each, .* of disk at most .*; copies of those kept go to file://", lines)
    assert re.search(r"checkpoint of step 3: [\d.]+ kB written in [\d.e-]+ s, copied in [\d.e-]+ s; training waited", lines)
    sizes = {step: checkpoint.read_manifest(checkpoint.directory_of(trained.directory, step)).bytes for step in (6, 8)}
    rows = [row["usage"].get("saved") for row in read_metrics(trained.directory) if row["kind"] == "train"]
    costs = {row["step"]: row for row in rows if row}
    assert costs.keys() <= {3, 4, 6}  # each on the first line after it was written
    assert costs
    for step, cost in costs.items():
        assert cost.keys() == {"step", "bytes", "seconds", "copying", "waited"}
        assert step not in sizes or cost["bytes"] == sizes[step]
    assert trained.summary.waiting.bytes == pytest.approx(trained.summary.waiting.saves * sizes[8], rel=0.01)
    assert "written in" in str(trained.summary.waiting)


@pytest.mark.parametrize("changes", [{}, {"average": {"kind": "ema"}}, {"plan.precision": "pure_bf16"}], ids=str)
def test_the_size_of_a_checkpoint_is_foretold(tiny, tmp_path, changes):
    run = change_all(tiny, {"steps": 1, **changes})
    train(run, tmp_path / "run", console=QUIET)
    newest = checkpoint.latest(tmp_path / "run")[0]
    size = sum(path.stat().st_size for path in newest.glob("*.safetensors"))
    assert checkpoint_bytes(run) == pytest.approx(size, rel=0.1)  # headers, and the optimiser's counters


def test_a_disk_that_fills_leaves_the_older_checkpoint_and_nothing_half(tiny, tmp_path, monkeypatch):
    real, saves = checkpoint.model.save_file, []

    def fills(tensors, path):
        saves.append(path)
        if len(saves) > 2:
            path.write_bytes(b"half")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        real(tensors, path)

    monkeypatch.setattr(checkpoint.model, "save_file", fills)
    with pytest.raises(UnsavedError, match=r"the disk is full.*(?s:.*)checkpoint of step 3 is whole.*train --resume"):
        train(tiny, tmp_path / "run", console=QUIET)
    assert issubclass(UnsavedError, UserError)
    assert UnsavedError.exit_code == 1
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000003"]
    monkeypatch.setattr(checkpoint.model, "save_file", real)
    assert resume(tmp_path / "run", console=QUIET).finished


def test_files_of_a_checkpoint_follow_the_umask(tiny, tmp_path):
    before = os.umask(0o027)
    try:
        train(tiny, tmp_path / "run", console=QUIET)
    finally:
        os.umask(before)
    inside = list(checkpoint.latest(tmp_path / "run")[0].rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_file()} == {0o640}
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_dir()} == {0o750}


def test_runs_of_one_second_have_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "datetime", SimpleNamespace(now=lambda: datetime(2026, 1, 2, 3, 4, 5)))
    made = []
    for _ in range(3):
        made.append(loop.new_directory())
        made[-1].mkdir(parents=True)
    assert [str(place) for place in made] == [f"runs/2026-01-02-030405{end}" for end in ("", "-2", "-3")]
