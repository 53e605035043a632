"""Killed at random moments and resumed, a run ends with the same losses and the same weights, to the bit.

Lives that are killed are processes of their own; the run that is left alone and the last life are this one's.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import change_all, to_toml
from anyformer.training import resume, train
from anyformer.training.journal import read_metrics
from anyformer.training.precision import compile_problem

SCRIPT = """
import sys
from pathlib import Path
from rich.console import Console
from anyformer.training import resume, train
run, directory = sys.argv[1:]
(resume(directory, console=Console(quiet=True)) if Path(directory, "run.toml").exists()
 else train(run, directory, console=Console(quiet=True)))
"""


def start(run, directory) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(run), str(directory)], env=dict(os.environ))


def outcome(directory) -> tuple[list[float], str]:
    last = checkpoint.steps(directory)[-1]
    losses = [row["loss"] for row in read_metrics(directory) if row["kind"] == "train"]
    return losses, hashlib.sha256((checkpoint.directory_of(directory, last) / "model.safetensors").read_bytes()).hexdigest()


def kill(run, directory, kills: int, chance: random.Random) -> int:
    """Start, kill -9 at some progress, start again ...; returns how many kills hit a run in progress."""
    hit = 0
    for _ in range(kills):
        before = len(losses_so_far(directory))
        process = start(run, directory)
        target = before + chance.randrange(6, 12)  # behind the first checkpoint
        while process.poll() is None and len(losses_so_far(directory)) < target:
            time.sleep(0.002)
        if process.poll() is None:
            hit += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    return hit


def losses_so_far(directory) -> list[str]:
    path = directory / "metrics.jsonl"
    return [line for line in path.read_text().splitlines() if '"train"' in line] if path.exists() else []


@pytest.mark.parametrize(
    ("precision", "compile", "kills"),
    [
        pytest.param("fp32", "off", 1, marks=pytest.mark.slow),
        pytest.param("bf16", "off", 3, marks=pytest.mark.slow),
        pytest.param("fp32", "on", 2, marks=pytest.mark.slow),
        pytest.param("bf16", "on", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_equals_never_interrupted(tiny, tmp_path, precision, compile, kills):
    """In processes of their own, each of which loads torch; tests/faults kills forks of one, more often and at every stage of a
    save."""
    if compile == "on" and compile_problem("cpu"):
        pytest.skip(f"torch.compile does not work here: {compile_problem('cpu')}")
    changes = {"plan.precision": precision, "plan.compile": compile, "steps": 24, "checkpoints.every": 5, "evaluation.every": 7}
    run = tmp_path / "run.toml"
    run.write_text(to_toml(change_all(tiny, changes)))
    train(run, tmp_path / "whole", console=Console(quiet=True))
    assert kill(run, tmp_path / "killed", kills, random.Random(precision + compile)) >= 1
    resume(tmp_path / "killed", console=Console(quiet=True))
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
