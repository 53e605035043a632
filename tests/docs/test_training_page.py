"""`docs/training.md` says what every objective and every catalogue entry is today."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_training_is_up_to_date():
    maker = runpy.run_path(str(DOCS / "make_training.py"))
    for path, text in maker["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "run: python docs/make_training.py"
