"""What the atlas quotes from studies and claims, and the curves that it draws, are those of today."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

from anyformer.atlas.curves import CURVES
from anyformer.atlas.measured import MEASURED

ROOT = Path(__file__).parents[2]


@cache
def maker() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "make_atlas.py"))


def test_studies_and_claims_are_those_of_today():
    assert maker()["text"]() == MEASURED.read_text(encoding="utf-8"), "run: python docs/make_atlas.py"


def test_curves_are_those_of_the_activations():
    assert maker()["curves"]() == CURVES.read_text(encoding="utf-8"), "run: python docs/make_atlas.py"
