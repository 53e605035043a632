"""docs/transform.md: its output is that of today, and it is listed."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_output_is_that_of_today():
    maker = runpy.run_path(str(ROOT / "docs" / "make_transform.py"))
    assert maker["PAGE"].read_text(encoding="utf-8") == maker["page"](), "run: python docs/make_transform.py"


def test_the_readme_points_to_it():
    assert "(docs/transform.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
