"""The table of families beside the tools of their authors is made of its result, which holds no difference."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from benchmarks.as_authors.comparing import CLOSE, compared, equal
from benchmarks.as_authors.families import FAMILIES

MAKER = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "make_as_authors.py"))
RECORD = json.loads(MAKER["RESULT"].read_text(encoding="utf-8"))
CHECKS = {
    "causal": {"greedy", "beams", "penalties", "documents", "choices", "messages", "completions", "text", "preferences"},
    "seq2seq": {"greedy", "beams", "penalties", "choices", "pairs"},
    "masked": {"hidden words", "hidden"},
}


def test_the_page_is_that_of_its_result() -> None:
    assert MAKER["page"](RECORD) == MAKER["PAGE"].read_text(encoding="utf-8"), "run: python docs/make_as_authors.py"


def test_all_families_were_compared() -> None:
    assert len(FAMILIES) == 40
    assert {name: family.shape for name, family in FAMILIES.items()} == {
        name: found["shape"] for name, found in RECORD["families"].items()
    }
    for name, found in RECORD["families"].items():
        assert set(found["checks"]) == CHECKS[found["shape"]], name


@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_differs(name: str) -> None:
    for what, check in RECORD["families"][name]["checks"].items():
        assert equal(check), (what, check)


def test_differences_are_seen() -> None:
    """Of a token, a row, a loss, and of a side that failed."""
    text = {"tokens": [1, 2], "text": "a"}
    found = {
        "generate": {"greedy": [text]}, "choices": [[-1.0, -2.0]], "documents": [-3.0],
        "fine_tuning": {"text": {"rows": [[[1], [1]]], "losses": [2.0]}},
    }  # fmt: skip
    assert all(equal(check) for check in compared(found, found).values())
    others = {
        "greedy": {"generate": {"greedy": [text | {"tokens": [1, 3]}]}},
        "choices": {"choices": [[-1.0, -2.0 * (1 + 2 * CLOSE)]]},
        "documents": {"documents": [-3.0, -1.0]},
        "text": {"fine_tuning": {"text": {"rows": [[[1], [2]]], "losses": [2.0]}}},
    }
    for wrong, change in others.items():
        checks = compared(found | change, found)
        assert [name for name, check in checks.items() if not equal(check)] == [wrong]
    assert not any(equal(check) for check in compared({"failed": "no"}, found).values())
