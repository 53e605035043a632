"""docs/reference/protocol.md is made from the bodies that the server reads."""

from __future__ import annotations

import runpy
from pathlib import Path

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_serve.py"))


def test_the_fields_are_those_that_are_read():
    page = MAKER["PAGE"]
    assert MAKER["pages"]()[page] == page.read_text(encoding="utf-8"), "run: python docs/make_serve.py"
