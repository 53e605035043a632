"""The page of parts is what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_parts_is_up_to_date():
    made = runpy.run_path(str(ROOT / "docs" / "make_parts.py"))["page"]()
    assert (ROOT / "docs" / "reference" / "parts.md").read_text() == made, "run: python docs/make_parts.py"
