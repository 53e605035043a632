"""A run goes on with another mesh, or number of processes, than it was saved with, as if it had always had one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from anyformer.checkpoint import remote
from anyformer.describe import change_all, to_toml
from anyformer.training import load_run, resume, train
from anyformer.training.journal import read_metrics

RESHARDING = Path(__file__).with_name("resharding.py")
QUIET = Console(quiet=True)


def losses(directory: Path) -> list[float]:
    """Of all updates, and of the last evaluation."""
    rows = read_metrics(directory)
    return [row["loss"] for row in rows if row["kind"] == "train"] + [rows[-1]["loss"]]


def test_saved_on_one_mesh_and_resumed_on_another(run_of, start, tmp_path):
    files = {name: run_of(name) for name in ("llama-3-8b", "mixtral-8x7b")}
    for name, file in files.items():
        file.write_text(to_toml(change_all(load_run(file), {"architecture.decoder.order": "(layer)*4"})), encoding="utf-8")
        train(load_run(file), tmp_path / f"{name}-alone", console=QUIET)
        train(load_run(file, {"steps": 4}), tmp_path / f"{name}-widening", console=QUIET)
    finished = start(2, RESHARDING, *files.values())
    assert finished.returncode == 0, finished.stderr[-3000:]
    for name in files:
        store, there = f"file://{tmp_path}/bucket/{name}-narrowing", tmp_path / "runs" / f"{name}-narrowing"
        assert remote.stored_steps(store) == [3, 4]
        first, copy = tmp_path / f"{name}-taken-away", tmp_path / "bucket" / f"{name}-narrowing"
        for path in (first / "checkpoints" / "step-00000003").rglob("*"):
            assert path.is_dir() or path.read_bytes() == (copy / path.relative_to(first)).read_bytes()
        resume(there, {"plan.mesh": {}, "steps": 8}, console=QUIET)
        whole = losses(tmp_path / f"{name}-alone")
        assert losses(there) == pytest.approx(whole, rel=1e-5)
        assert losses(tmp_path / f"{name}-widening") == pytest.approx(whole, rel=1e-5)
        said = (tmp_path / f"{name}-widening" / "ranks" / "1.log").read_text(encoding="utf-8")
        assert f"continuing {name}-widening after step 4 of 8" in said
