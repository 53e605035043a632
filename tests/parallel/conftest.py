"""Runs in two processes, started as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all, to_toml
from anyformer.plan import Plan
from anyformer.training import Checkpoints, ConstantSchedule, Evaluation, Run

LONGEST = 240
"""Seconds after which a process that waits for ever is a failure."""


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def run_of(tmp_path_factory) -> Callable[..., Path]:
    """The file of a tiny run of eight updates, of an entry of the catalogue, with these fields of a run."""
    folder = tmp_path_factory.mktemp("runs")
    text = folder / "text.txt"
    text.write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400)), encoding="utf-8")

    def made(name: str, **more: object) -> Path:
        run = Run(
            steps=8, batch=4, accumulation=2, length=32, seed=3,
            schedule=ConstantSchedule(warmup=0), plan=Plan(precision="fp32", compile="off"),
            data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1), checkpoints=Checkpoints(every=4, keep=9),
            evaluation=Evaluation(every=4, batches=1, final_tokens=512, baseline=False),
            architecture=change_all(architecture(name, tiny=True), {"embedding.vocab": 300}), **more,
        )  # fmt: skip
        file = folder / f"{name}.toml"
        file.write_text(to_toml(run), encoding="utf-8")
        return file

    return made


@pytest.fixture(scope="session")
def start_in() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Starts a Python program in a directory and so many processes, by torchrun where they are several."""

    def started(place: Path, processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *(several if processes > 1 else []), *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ANYFORMER_CACHE": str(place / "cache")}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONGEST, cwd=place)

    return started


@pytest.fixture
def start(tmp_path, start_in) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`start_in` the test's own directory."""
    return partial(start_in, tmp_path)
