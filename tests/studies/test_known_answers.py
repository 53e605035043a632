"""The committed studies of known answers, asked again: `anyformer compare` of each recipe. Minutes each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

import anyformer as af

ROOT = Path(__file__).parents[2]
COMMITTED = sorted(path.parent.name for path in (ROOT / "docs" / "studies").glob("*/report.json"))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_study_comes_out_again(name, tmp_path):
    """What was told is not told the other way round; numbers depend on the machine in their last bits, and so may a verdict."""
    stored = json.loads((ROOT / "docs" / "studies" / name / "report.json").read_text(encoding="utf-8"))
    found = af.compare(ROOT / "recipes" / "studies" / f"{name}.toml", tmp_path / name, console=Console(quiet=True))
    opposite = {"better": "worse", "worse": "better"}
    for before, now in zip(stored["comparisons"], found.comparisons, strict=True):
        assert now.verdict != opposite.get(before["verdict"]), f"{name}: {before['name']}"
    assert any(now.verdict == before["verdict"] for before, now in zip(stored["comparisons"], found.comparisons, strict=True))
