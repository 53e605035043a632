"""Runs in two processes: forked from one that has loaded torch, or started as a user starts them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anyformer import native
from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all, to_toml
from anyformer.plan import Plan
from anyformer.training import Checkpoints, ConstantSchedule, Evaluation, Run
from forking import LONGEST, Forker, forker

Start = Callable[..., subprocess.CompletedProcess[str]]


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
def forks() -> Iterator[Forker]:
    """The process from which those of a run are forked."""
    with forker() as made:
        yield made


@pytest.fixture(scope="session")
def start_in(forks) -> Start:
    """Starts a Python program in a directory and so many processes."""
    number = itertools.count()

    def started(place: Path, processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
        words, said = tuple(map(str, arguments)), place / f"said-{next(number)}"
        return forks.run(place, processes, words, environment_in(place), said)

    return started


@pytest.fixture
def start(tmp_path, start_in) -> Start:
    """`start_in` the test's own directory."""
    return partial(start_in, tmp_path)


@pytest.fixture
def torchrun(tmp_path) -> Start:
    """As `start`, but by torchrun."""

    def started(processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
        words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *map(str, arguments)]
        given: Any = {"cwd": tmp_path, "env": environment_in(tmp_path), "timeout": LONGEST, "capture_output": True}
        return subprocess.run([sys.executable, *words], text=True, **given)

    return started


def environment_in(place: Path) -> dict[str, str]:
    """A cache of the directory's own, but for C++ sources: each process would compile them for seconds."""
    cache = place / "cache"
    cache.mkdir(exist_ok=True)
    if not (cache / native.KEPT.folder).is_symlink():
        native.KEPT.place.mkdir(parents=True, exist_ok=True)
        (cache / native.KEPT.folder).symlink_to(native.KEPT.place)
    return {**os.environ, "OMP_NUM_THREADS": "1", "ANYFORMER_CACHE": str(cache)}
