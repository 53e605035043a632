"""Processes that sample from the model in training: every one its own samples, and together those of one process."""

from __future__ import annotations

import json

import pytest

from anyformer.catalogue import architecture
from anyformer.describe import change_all, to_toml
from anyformer.training import Run, load_run
from anyformer.training.journal import read_metrics


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    model = change_all(architecture("llama-2-7b", tiny=True), {"embedding.vocab": 12})
    run = Run.parse(
        {
            "steps": 3, "batch": 8, "length": 10, "seed": 7, "architecture": model.plain(),
            "data": {"kind": "task", "task": {"kind": "sorting", "numbers": 4}, "shortest": 6},
            "objective": {"kind": "policy", "group": 4, "loss": "dapo", "reward": {"kind": "task", "counts": "share"}},
            "plan": {"precision": "fp32", "compile": "off"}, "schedule": {"kind": "constant", "warmup": 0},
            "evaluation": {"every": 2, "batches": 1, "final_tokens": 160}, "optimiser": {"learning_rate": 1e-2},
        }
    )  # fmt: skip
    path = tmp_path_factory.mktemp("policy") / "run.toml"
    path.write_text(to_toml(run), encoding="utf-8")
    return path


FIGURES = ("reward", "length", "varied", "moving", "clipped", "entropy")


@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_learn_as_one_does(processes, file, start, tmp_path):
    found = {}
    for count in (1, processes):
        finished = start(count, "-m", "anyformer", "train", file, "--out", tmp_path / str(count))
        assert finished.returncode == 0, finished.stderr[-3000:]
        found[count] = [row for row in read_metrics(tmp_path / str(count)) if row["kind"] in ("train", "validation")]
    for one, other in zip(found[1], found[processes], strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-4, abs=1e-5)
        if one["kind"] == "validation":
            assert other["metrics"] == pytest.approx(one["metrics"])
            continue
        assert other["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-3)
        for name in FIGURES:
            assert other["objective"][name] == pytest.approx(one["objective"][name], rel=1e-4, abs=1e-6), name


def test_processes_that_divide_weights_are_refused(file, start, tmp_path):
    assert load_run(file).plan.mesh.shard == 1
    change = f"plan.mesh={json.dumps({'data': 1, 'shard': 2})}".replace(": ", " = ").replace('"', "")
    finished = start(2, "-m", "anyformer", "train", file, "--out", tmp_path / "run", "--set", change)
    assert finished.returncode != 0
    assert "leave all but plan.mesh.data out" in " ".join(finished.stderr.split())
