"""Every catalogue entry is trained with its usual objective, on data of its kind; one of each shape and objective here."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch

from anyformer.catalogue import architecture, listing
from anyformer.describe import change_all
from anyformer.objectives import default_objective
from anyformer.plan import Plan
from anyformer.training import default_run
from anyformer.training.held_out import corpus_of
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer
from stand_ins import few_records

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ROWS = [
    {
        "text": f"{LETTERS[n % 26] * 8} is one of {n} words that say {n % 7} things of {n * n % 97}. ",
        "positive": LETTERS[n % 26] * 6,
        "label": n % 3,
    }
    for n in range(200)
]
SPOKEN = [
    {"sound": {"array": [((k * (n % 26 + 3)) % 19) / 20 for k in range(9000)], "sampling_rate": 16_000}, "text": LETTERS[n] * 8}
    for n in range(26)
]


def usual() -> dict[tuple[str, str], list[str]]:
    """(shape, default objective) -> entries."""
    found: dict[tuple[str, str], list[str]] = {}
    kind = cache(lambda model: default_objective(model).kind)  # most entries are in their tiny form one of others
    for entry in listing():
        model = architecture(entry.name, tiny=True)
        found.setdefault((model.shape_of_model, kind(model)), []).append(entry.name)
    return found


USUAL = usual()
FIRST = [names[0] for names in USUAL.values()]
OTHERS = [name for names in USUAL.values() for name in names[1:]]


def learns(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that `anyformer train NAME --tiny` makes: finite, and the loss of one repeated batch falls within 20 steps,
    where three losses in a row are enough."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(folder / "cache"))
    path = folder / "rows.jsonl"
    model = architecture(name, tiny=True)
    hears = model.embedding.sound is not None
    path.write_text("".join(json.dumps(row) + "\n" for row in (SPOKEN if hears else ROWS)))
    if model.embedding.symbols is not None and model.embedding.symbols < 257:
        model = change_all(model, {"embedding.vocab": 257})  # of a data set with fewer characters than bytes
    reads_text = model.embedding.symbols is not None
    paths = (str(path) if reads_text or hears else "shapes" if model.two_inputs else "digits",)
    data = default_objective(model).usual.data(model, paths)
    run = default_run(model, paths, data=data.but(seconds=min(data.seconds, 0.6)) if hears else data)
    run = change_all(run, {"minutes": None, "steps": 1, "batch": 4, "data.validation": 0.2})
    run = run.but(length=min(run.length, 96) if reads_text else run.length, plan=Plan(precision="fp32", compile="off"))
    with few_records():
        trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))
    batch = trainer.micro_batches(0)
    seen = []
    for _ in range(20):
        seen.append(trainer.passes.add_gradients(batch)[0])
        for each in (trainer.trainee, *trainer.learning.values()):
            for group in each.optimiser.param_groups:
                group["lr"] = 3e-3
            each.optimiser.step()
            each.optimiser.zero_grad()
        if len(seen) > 3 and max(seen[-3:]) < 0.99 * seen[0]:
            break
    assert all(map(math.isfinite, seen)), seen
    assert min(seen[-3:]) < 0.99 * seen[0], seen


@pytest.mark.parametrize("name", FIRST)
def test_one_of_each_shape_and_objective_learns(name, tmp_path, monkeypatch):
    learns(name, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_entry_learns(name, tmp_path, monkeypatch):
    learns(name, tmp_path, monkeypatch)
