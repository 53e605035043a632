"""docs/queues.md is made of its result, and of what engines have printed."""

from __future__ import annotations

import runpy
from pathlib import Path

from benchmarks.queues.__main__ import SHARES, errors

ROOT = Path(__file__).parents[2]
MAKER = runpy.run_path(str(ROOT / "docs" / "make_queues.py"))
RECORD = MAKER["result"]()


def test_the_page_is_that_of_its_result():
    assert MAKER["pages"](RECORD) == {MAKER["PAGE"]: MAKER["PAGE"].read_text(encoding="utf-8")}, (
        "run: python docs/make_queues.py"
    )


def test_a_load_says_what_is_measured_and_how_far_off_the_rest_is():
    figures = dict.fromkeys(MAKER["FIGURES"], 2.0)
    row = {"share": SHARES[0], "measured": figures, "requests": 120, "capacity": 9.0}
    row |= {"foretold": dict.fromkeys(figures, 2.1), "replayed": dict.fromkeys(figures, 2.4)}
    assert set(errors(row)) == set(MAKER["FIGURES"])
    record = {"loads": [row], "rounds": 3, "parameters": 6e6, "date": "2026-01-01", "machine": {"cpu": "a processor"}}
    text = MAKER["loads"](record)
    assert "| 20% | 2 (+5%, +20%) | 2,000 ms (+5%, +20%) |" in text
    assert "3 rounds, together 120 to 120 requests a load" in text.replace("\n", " ")
    assert "7 of 7 figures within 10%" in text.replace("\n", " ")
    assert "0 of 7 figures within 10%, the median 20.0% off" in text.replace("\n", " ")


def test_every_load_is_measured_where_one_is():
    shares = [row["share"] for row in RECORD.get("loads", [])]
    assert shares in ([], list(SHARES))
