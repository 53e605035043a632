"""docs/reference/protocol.md is made from the bodies that the server reads, and tables of docs/serve.md from results."""

from __future__ import annotations

import runpy
from pathlib import Path

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_serve.py"))


def test_fields_and_figures_are_those_of_today():
    for page, text in MAKER["pages"]().items():
        assert text == page.read_text(encoding="utf-8"), "run: python docs/make_serve.py"
