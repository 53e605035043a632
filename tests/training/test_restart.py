"""A line that is started again and again begins a run the first time, and then goes on with it."""

from __future__ import annotations

import pytest
from rich.console import Console

from anyformer.describe import UserError, change_all, to_toml
from anyformer.mesh import Mesh
from anyformer.training import begin_or_resume, read_run
from anyformer.training.journal import read_metrics

QUIET = Console(quiet=True)


def steps(directory):
    return [row["step"] for row in read_metrics(directory) if row["kind"] == "train"]


def test_it_begins_and_then_goes_on(tiny, tmp_path):
    run = change_all(tiny, {"steps": 2})
    assert begin_or_resume(run, tmp_path / "run", console=QUIET).step == 2
    # Whatever the file says by now: values that updates are computed with are those of the run that has begun.
    edited = change_all(run, {"batch": 2 * run.batch, "plan.mesh": {"timeout": 9.0}})
    again = begin_or_resume(edited, tmp_path / "run", {"steps": 3, "plan.mesh.timeout": 9.0}, console=QUIET)
    assert again.step == 3
    assert steps(tmp_path / "run") == [1, 2, 3]
    kept = read_run(tmp_path / "run")
    assert (kept.batch, kept.plan.mesh) == (run.batch, Mesh(timeout=9.0)), "the mesh is that of the processes there are now"
    with pytest.raises(UserError, match="begun with other values"):
        begin_or_resume(edited, tmp_path / "run", {"batch": 2 * run.batch}, console=QUIET)


def test_the_command_takes_both(tiny, tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(to_toml(change_all(tiny, {"steps": 1})))
    for _ in range(2):
        done = call("train", "run.toml", "--resume", "kept")
        assert done.returncode == 0, done.stderr
    assert steps(tmp_path / "kept") == [1]
    for words, says in (
        (("gpt2", "--resume", "kept"), "to begin it there if it has not begun"),
        (("run.toml", "--resume", "kept", "--set", "minutes=3"), "set minutes in the run's file"),
        (("run.toml", "--resume", "kept", "--out", "x"), "leave out --data"),
        (("--start-from", "kept", "--resume", "kept"), "to begin it there"),
    ):
        refused = call("train", *words)
        assert refused.returncode == 2
        assert says in " ".join(refused.stderr.split())


def test_a_directory_without_a_run_is_no_run(tmp_path, call):
    assert "not a run directory" in call("train", "--resume", str(tmp_path / "no")).stderr
