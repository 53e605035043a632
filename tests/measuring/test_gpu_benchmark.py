"""The benchmark on a GPU compares equal models, and every one of its jobs runs."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
import torch
from benchmarks import gpu
from benchmarks.gpu_models import MODELS, PEERS, transformers

from anyformer.model.transformer import build

CPU = torch.device("cpu")


def learned(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_transformers_has_the_same_parameters(name):
    model = MODELS[name].tiny
    with torch.device("meta"):
        theirs, _ = transformers(model)
    assert learned(theirs) == learned(build(model.architecture(), device="meta"))


SIZES = {"gpt2": (124e6, 124e6), "llama-1.2b": (1.24e9, 1.24e9), "experts": (3.5e9, 1.1e9)}
"""All parameters, and those that are active for a token."""


@pytest.mark.parametrize("name", MODELS)
def test_the_models_have_the_sizes_that_are_said(name):
    total, active = SIZES[name]
    cost = MODELS[name].architecture().trained_cost(gpu.Shape(batch=1, length=8))
    assert cost.parameters == pytest.approx(total, rel=0.03)
    assert cost.active_parameters == pytest.approx(active, rel=0.06)


def test_every_job_runs_and_a_peer_that_is_not_installed_has_a_row(monkeypatch):
    for name in ("WARM", "STEPS", "ROUNDS"):
        monkeypatch.setattr(gpu, name, 1)
    monkeypatch.setattr(gpu, "NEW", 4)
    monkeypatch.setattr(gpu, "BATCHES", {1: 8, 3: 16})
    on, model = gpu.calibrated(seconds=0.1, device="cpu"), replace(MODELS["gpt2"].tiny, length=32)
    jobs = gpu.jobs(model, ["fp8"], [], CPU, on)
    assert len(jobs) == 2 + 2 * len(PEERS) + 4
    found = {name: job() for name, job in jobs.items() if "compiled" not in name}
    trained = found["training, anyformer, fp8, eager"]
    assert trained["bytes"] == pytest.approx(trained["foretold_bytes"], rel=0.2)
    assert {"foretold_tokens_per_second", "share_of_products"} <= trained.keys()
    assert found["training, transformers, bf16, eager"]["tokens_per_second"] > 0
    assert all(row["tokens_per_second"] > 0 for name, row in found.items() if name.startswith("decoding"))
    monkeypatch.setitem(gpu.PEERS, "absent", _absent)
    assert gpu.jobs(model, [], [], CPU, on)["training, absent, bf16, eager"]() == {"missing": "no such library"}
    json.dumps(found)


def test_the_worthiest_comes_first_and_a_later_call_goes_on():
    on, model = gpu.calibrated(seconds=0.1, device="cpu"), MODELS["gpt2"].tiny
    names = list(gpu.jobs(model, ["bf16", "fp8"], [], CPU, on))
    assert names[:3] == [
        "training, anyformer, bf16, compiled", "training, anyformer, fp8, compiled", "decoding, anyformer, batch 1, recorded",
    ]  # fmt: skip
    assert names[-1] == "decoding, anyformer, batch 256, compiled"

    def full():
        raise torch.OutOfMemoryError("CUDA out of memory\nof 80 GB")

    record, kept = {"model": "gpt2", "device_type": "cpu", "results": {"a": {"tokens_per_second": 1.0}}}, []
    listed = {"a": full, "b": full, "c": lambda: {"tokens_per_second": 2.0}}
    gpu.run_until(time.monotonic() - 1, listed, record, lambda: kept.append(len(record["results"])))
    assert (kept, gpu.missing(record["results"], listed)) == ([], ["b", "c"])
    gpu.run_until(time.monotonic() + 60, listed, record, lambda: kept.append(len(record["results"])))
    assert kept == [2, 3]
    assert record["results"]["a"] == {"tokens_per_second": 1.0}
    assert record["results"]["b"] == {"missing": "CUDA out of memory"}


def _absent(model):
    raise ImportError("no such library")
