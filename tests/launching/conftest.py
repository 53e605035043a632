"""The file of a tiny run, and clusters on which it may start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anyformer.api import architecture
from anyformer.data import Bytes, Text
from anyformer.describe import change_all, to_toml
from anyformer.launching import Cluster, Hosts, JobSet, Launch, Slurm
from anyformer.plan import Plan
from anyformer.training import Checkpoints, ConstantSchedule, Evaluation, Run

PLACES = {
    "slurm": Slurm(partition="gpu", account="mine", minutes=90),
    "ssh": Hosts(hosts=("node-0", "me@node-1")),
    "k8s": JobSet(image="my/image:1", claim="work"),
}


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """The file of a run of four updates, in the current directory."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400)), encoding="utf-8")
    run = Run(
        steps=4, batch=8, length=32, seed=3, schedule=ConstantSchedule(warmup=0), plan=Plan(precision="fp32", compile="off"),
        data=Text(paths=("text.txt",), tokenizer=Bytes(), validation=0.1), checkpoints=Checkpoints(every=2, keep=9),
        evaluation=Evaluation(every=4, batches=1, final_tokens=512, baseline=False),
        architecture=change_all(architecture("llama-3-8b", tiny=True), {"embedding.vocab": 300}),
    )  # fmt: skip
    path = Path("My run.toml")
    path.write_text(to_toml(run), encoding="utf-8")
    return path


@pytest.fixture
def launch_on(file) -> Callable[..., tuple[Cluster, Launch]]:
    """A cluster, by its name here or itself, and a launch of the run on it."""

    def made(cluster: Cluster | str, nodes: int = 2, gpus: int = 2) -> tuple[Cluster, Launch]:
        return PLACES[cluster] if isinstance(cluster, str) else cluster, Launch(str(file), "runs/one", nodes, gpus)

    return made
