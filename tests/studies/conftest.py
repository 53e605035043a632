"""A study small enough to run in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anyformer.catalogue.llama import llama
from anyformer.data import Bytes, Text
from anyformer.describe import to_toml
from anyformer.plan import Plan
from anyformer.studies import Arm, Study, charts, page
from anyformer.studies.findings import Findings
from anyformer.training import AdamW, Checkpoints, Evaluation, Run

TEXT = "\n".join(f"def f{i}(x):\n    return x + {i * i % 97}\n" for i in range(400))
SMALL = llama(width=32, depth=2, heads=4, kv_heads=2, ffn=48, vocab=257, tied=True)


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.py"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def base(text) -> Run:
    return Run(
        steps=6,
        batch=4,
        length=32,
        data=Text(paths=(str(text),), tokenizer=Bytes(), validation=0.1),
        optimiser=AdamW(learning_rate=3e-3),
        evaluation=Evaluation(every=3, batches=2, final_tokens=256, baseline=False),
        checkpoints=Checkpoints(every=2, keep=1),
        plan=Plan(precision="fp32", compile="off"),
        architecture=SMALL,
    )


@pytest.fixture(scope="session")
def study(base) -> Study:
    """Two arms beside the base."""
    return Study(
        title="one key head?",
        seeds=(1, 2, 3),
        base=base,
        arms={
            "one_head": Arm(set=("decoder.layer.attention.kv_heads=1",)),
            "gelu": Arm(set=("decoder.layer.feedforward.activation=gelu",)),
        },
    )


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Pictures of reports stay empty, under their names and captions: to draw them takes longer than tiny trials."""
    drawn = charts.pictures

    def empty(findings: Findings) -> dict[str, Any]:
        return {name: (said, lambda figure: None, size) for name, (said, _, size) in drawn(findings).items()}

    for module in (charts, page):
        monkeypatch.setattr(module, "pictures", empty)


@pytest.fixture
def place(tmp_path, base) -> Path:
    """A directory with the base run's file."""
    (tmp_path / "run.toml").write_text(to_toml(base))
    return tmp_path
