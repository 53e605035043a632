"""A run small enough to train in a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.describe import change_all
from anyformer.plan import Plan
from anyformer.training import AdamW, Checkpoints, Evaluation, Run

TEXT = "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400))


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.py"
    path.write_text(TEXT)
    return path


@pytest.fixture
def tiny(text, monkeypatch, tmp_path) -> Run:
    """Two layers with every kind of dropout, in two micro-batches."""
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    architecture = change_all(
        llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=257, tied=True),
        {"decoder.dropout": 0.1, "decoder.layer.attention.dropout": 0.1, "decoder.layer.feedforward.multiplier": 0.9},
    )
    return Run(
        steps=8,
        batch=4,
        length=32,
        accumulation=2,
        data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1),
        optimiser=AdamW(learning_rate=3e-3),
        evaluation=Evaluation(every=4, batches=2, baseline=False),
        checkpoints=Checkpoints(every=3, keep=2),
        plan=Plan(precision="fp32", compile="off"),
        architecture=architecture,
    )
