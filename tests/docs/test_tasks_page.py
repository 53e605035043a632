"""`docs/tasks.md` says what every task is today."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_tasks_is_up_to_date():
    maker = runpy.run_path(str(DOCS / "make_tasks.py"))
    assert (DOCS / "tasks.md").read_text(encoding="utf-8") == maker["page"](), "run: python docs/make_tasks.py"
