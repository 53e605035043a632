"""A run that was stopped, twice, ends with the same bits: modes together, and each precision with each optimiser."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import zoo

from anyformer.checkpoint import directory_of
from anyformer.data import Bytes
from anyformer.describe import change_all
from anyformer.objectives import CausalObjective
from anyformer.training import ConstantSchedule, Run, resume, train
from anyformer.training.average import EMA
from anyformer.training.instability import SkipBatch
from anyformer.training.journal import read_metrics
from anyformer.tuning import Lora
from training.test_optimiser_state import EACH as OPTIMISERS
from training.test_optimiser_state import LEARNING, QUIET
from training.test_precisions import PRECISIONS, digest

STEPS = 5
STOPS = (3, 1)
"""The checkpoints after which a run is stopped: the second time before the first."""


def mixture(folder: Path) -> dict[str, Any]:
    """Two sources of documents, both so small that they are read several times."""
    sources = {
        "odd": [f"{n} is {n % 7} of seven; " * (1 + n % 3) for n in range(1, 40, 2)],
        "even": ["ab " * 9, "c d " * 7] * 4,
    }
    for name, texts in sources.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    parts = [
        {
            "data": {"kind": "text", "paths": [str(folder / f"{name}.jsonl")], "isolate": True, "validation": 0.2},
            "weight": weight,
        }
        for name, weight in (("odd", 0.7), ("even", 0.3))
    ]
    return {"kind": "mixture", "parts": parts, "tokenizer": Bytes().plain()}


def equal_when_stopped(run: Run, folder: Path) -> None:
    """Train a run whole, and again from each of `STOPS` as a kill leaves it; compare losses and the last checkpoint."""
    whole, stopped = folder / "whole", folder / "stopped"
    train(run, whole, console=QUIET)
    shutil.copytree(whole, stopped)
    for stop in STOPS:
        for step in range(stop + 1, STEPS + 1):
            shutil.rmtree(directory_of(stopped, step))
        (stopped / "summary.json").unlink()
        resume(stopped, console=QUIET)
        assert digest(stopped, STEPS) == digest(whole, STEPS)
        assert losses(stopped) == losses(whole)


def losses(directory: Path) -> list[tuple[str, float]]:
    return [(row["kind"], row["loss"]) for row in read_metrics(directory) if row["kind"] in ("train", "validation")]


@pytest.fixture
def run(tiny) -> Run:
    often = {"steps": STEPS, "checkpoints.every": 1, "checkpoints.keep": STEPS, "evaluation.every": 2}
    return change_all(tiny, {**often, "evaluation.final_tokens": 128, "schedule": ConstantSchedule(warmup=2)})


MODES: dict[str, dict[str, Any]] = {
    "experts, dropout, an average, skipped batches": {
        "architecture": zoo.ZOO["experts_after_top_k"].but(embedding=zoo.ZOO["experts_after_top_k"].embedding.but(vocab=257)),
        "decoder.dropout": 0.2, "average": EMA(decay=0.9), "non_finite": SkipBatch(), "clip": 0.2,
        "objective": CausalObjective(z_loss=0.01, label_smoothing=0.1), "plan.checkpointing": "full",
    },
    "a recurrent layer in bf16": {
        "architecture": zoo.ZOO["delta_gated"].but(embedding=zoo.ZOO["delta_gated"].embedding.but(vocab=257)),
        "plan.precision": "bf16", "accumulation": 4,
    },
    "an adapter with dropout": {"tuning.adapter": Lora(rank=2, dropout=0.3), "accumulation": 1},
}  # fmt: skip


@pytest.mark.parametrize("changes", MODES.values(), ids=MODES)
def test_modes_together(run, tmp_path, changes):
    data = Run.parse({**run.plain(), "data": mixture(tmp_path)}).data
    made = change_all(run, {"data": data, **changes})
    equal_when_stopped(made, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_precision_with_each_optimiser(run, tmp_path, precision, optimiser):
    described = OPTIMISERS[optimiser].but(learning_rate=LEARNING[optimiser])
    equal_when_stopped(change_all(run, {"plan.precision": PRECISIONS[precision], "optimiser": described}), tmp_path)
