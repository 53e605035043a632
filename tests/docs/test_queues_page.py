"""docs/queues.md is made of its result."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from benchmarks.queues.__main__ import SHARES, errors

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_queues.py"))
RECORD = json.loads(MAKER["RESULT"].read_text(encoding="utf-8"))


def test_the_page_is_that_of_its_result():
    assert MAKER["pages"](RECORD) == {MAKER["PAGE"]: MAKER["PAGE"].read_text(encoding="utf-8")}, (
        "run: python docs/make_queues.py"
    )


def test_every_load_was_measured_and_is_as_far_off_as_the_page_says():
    assert [row["share"] for row in RECORD["loads"]] == list(SHARES)
    assert all(set(errors(row)) == set(MAKER["FIGURES"]) for row in RECORD["loads"])
