"""docs/scale.md and docs/reference/scale.md are made of their result, and the result is what the planner says today."""

from __future__ import annotations

import json
import re
import runpy
import statistics
from pathlib import Path

import pytest
from benchmarks import scale

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_scale.py"))
RECORD = json.loads(MAKER["RESULT"].read_text(encoding="utf-8"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in MAKER["PAGES"]}


def test_the_page_is_that_of_its_result():
    assert MAKER["pages"](RECORD) == TEXTS, "run: python docs/make_scale.py"


def test_what_it_points_to_exists():
    for path, text in TEXTS.items():
        for place in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
            assert (path.parent / place).exists(), place


def test_figures_are_those_of_today():
    assert RECORD["pods"] == scale.pods()
    assert RECORD["energies"] == list(scale.energies())
    assert RECORD["goodputs"] == list(scale.goodputs())


@pytest.mark.slow
def test_all_figures_are_those_of_today():
    assert RECORD["runs"] == list(scale.runs())
    assert RECORD["scale"] == [row for count in (12288, 24576, 49152, 98304, 196608) for row in scale.ways(count)]
    assert RECORD["links"] == [row for gbits in scale.GBITS for row in scale.ways(98304, gbits)]


def test_runs_have_more_than_900_accelerators_and_a_source():
    assert len({row["name"] for row in RECORD["runs"]}) >= 6
    for row in RECORD["runs"]:
        assert 900 < row["accelerators"] <= 16384
        assert "arXiv" in row["source"]
        assert row["error"] == pytest.approx(row["predicted"] / row["printed"] - 1, abs=0.01)


def test_what_the_page_says_in_words():
    errors = {row["who"]: row["error"] for row in RECORD["runs"]}
    assert statistics.median(map(abs, errors.values())) < 0.1
    assert errors["MegaScale"] < 0 < errors["Megatron-LM, by MegaScale's authors"], "between the two"
    assert not next(row for row in RECORD["runs"] if row["who"] == "DeepSeek-V3")["fits"]
    assert all(row["extrapolated"] == (row["accelerators"] > 16384) for row in RECORD["scale"])
    for row in RECORD["scale"]:
        if row["regions"] > 1 and row["outer"] is None:
            assert row["busy"] > 0.5, "longer than the step would be without"
        if row["outer"] is not None:
            assert row["busy"] < 0.01
    together = {row["accelerators"]: 1 - row["goodput"] for row in RECORD["scale"] if row["outer"] is None}
    assert together[98304] == pytest.approx(2 / 5, abs=0.02)
    assert together[196608] == pytest.approx(2 / 3, abs=0.05)
    by_links = [row["step"] for row in RECORD["links"] if row["outer"] is None]
    assert by_links == sorted(by_links, reverse=True)
