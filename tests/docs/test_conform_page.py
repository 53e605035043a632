"""The page of `anyformer conform` is made of its results, names every case, and no mistake that was tried is missed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from benchmarks.engines.conform import ENGINES

from anyformer.conforming import CASES

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_conform.py"))
PAGE = MAKER["PAGE"].read_text(encoding="utf-8")
RESULTS = MAKER["results"]()


def test_the_page_is_that_of_its_results():
    assert MAKER["pages"]()[MAKER["PAGE"]] == PAGE, "run: python docs/make_conform.py"


def test_the_page_tells_every_case_in_its_order():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == [case.name for case in CASES]
    assert len(PAGE.split()) <= 800


@pytest.mark.parametrize("engine", RESULTS)
def test_right_servers_pass_and_every_mistake_is_named(engine):
    assert engine in ENGINES
    rows = RESULTS[engine]["rows"]
    assert [row["name"] for row in rows if row["case"] != row["found"]] == []
    assert sum(row["case"] is None for row in rows) >= 2
    assert sum(row["case"] is not None for row in rows) >= 10
