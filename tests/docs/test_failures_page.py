"""docs/failures.md and its reference are made of their result, and the result is what the formulas say today."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from benchmarks import failures

from anyformer.planning.failures import PUBLISHED
from anyformer.planning.goodput import best_interval, daly, expected, waiting, young

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_failures.py"))
RECORD = json.loads(MAKER["RESULT"].read_text(encoding="utf-8"))
TEXTS = {path: path.read_text(encoding="utf-8") for path in MAKER["PAGES"]}


def test_the_page_is_that_of_its_result():
    assert MAKER["pages"](RECORD) == TEXTS, "run: python docs/make_failures.py"


def test_what_it_points_to_exists():
    for path, text in TEXTS.items():
        for place in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text):
            assert (path.parent / place).exists(), place
    assert "## Failures\n" in (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", RECORD["scale"], ids=lambda row: f"{row['devices']}, {row['way']}")
def test_goodputs_are_those_of_today(row):
    told = failures.job(row["devices"], **failures.WAYS[row["way"]])
    assert row["interval"] == pytest.approx(best_interval(told), rel=1e-4)
    assert row["formula"] == pytest.approx(expected(told, best_interval(told)).goodput, rel=1e-4)


def test_intervals_and_waiting_are_those_of_today():
    for row in RECORD["intervals"]:
        assert row["young"] == pytest.approx(young(row["pause"], row["mtbf"]), rel=1e-4)
        assert row["daly"] == pytest.approx(daly(row["pause"], row["mtbf"]), rel=1e-4)
        assert 0 <= row["gain"] < 0.005
    for row in RECORD["spares"]:
        told = failures.job(16384, background=True, spares=row["spares"])
        assert row["waiting"] == pytest.approx(waiting(told), rel=1e-4)
    assert RECORD["runs"]["rsc-1"] == failures.clusters()


def test_simulated_goodputs_agree_with_the_formula():
    """Within five standard errors each, and on average by one."""
    apart = [row["apart"] for name in ("intervals", "spares", "scale") for row in RECORD[name] if "apart" in row]
    assert len(apart) >= 40
    assert max(map(abs, apart)) < 5
    assert 0.5 < sum(each**2 for each in apart) / len(apart) < 1.6


def test_llama_is_compatible_with_its_report_and_opt_is_not_explained():
    """What the page says in words."""
    llama, opt = RECORD["runs"]["llama-3.1-405b"], RECORD["runs"]["opt-175b"]
    assert llama["unexpected, background"]["formula"] > PUBLISHED["llama-3.1-405b"].row["goodput"]
    assert llama["recovery_allowed"] > 15 * 60
    assert sum(cause.share for cause in PUBLISHED["llama-3.1-405b"].causes if "GPU" in cause.name) > 0.587
    assert opt["observed"] < opt["repair of 4 h, no spare"]["formula"] < opt["repair of 24 h, 4 spares"]["formula"]
    by_devices = {row["devices"]: row["reported"] / row["ours"] for row in RECORD["runs"]["rsc-1"]}
    assert by_devices[1024] == pytest.approx(1 / 3.7, abs=0.01)
