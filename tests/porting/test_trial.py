"""The trial of ports: the types are those of the drawing, and the page says what the committed result says."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NAMES = ("port", "port-second", "port-third", "port-fourth")
RESULT, SECOND, THIRD, FOURTH = (json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES)
TRIALS = RESULT, SECOND, THIRD, FOURTH
PAGE = " ".join((ROOT / "docs" / "port.md").read_text(encoding="utf-8").split())
LINES = 20


def ended(outcome: str, result=RESULT) -> list[dict]:
    return [row for row in result["types"] if row["outcome"] == outcome]


def test_every_type_is_counted_once():
    for result in TRIALS:
        assert len({row["type"] for row in result["types"]}) == len(result["types"]) == 30
        assert result["counts"] == {outcome: len(ended(outcome, result)) for outcome in result["counts"]}
    assert len({row["type"] for result in TRIALS for row in result["types"]}) == 30 * len(TRIALS)


def test_an_edit_is_there_and_short_enough():
    for row in (row for result in TRIALS for row in ended("edited", result)):
        diff = (ROOT / "benchmarks" / "port_edits" / f"{row['type']}.diff").read_text(encoding="utf-8")
        added = sum(line.startswith("+") for line in diff.splitlines()[2:])
        assert row["lines"] == added <= LINES, row["type"]
        assert f"{row['type']} {added}" in PAGE.replace(" line", "")


def test_the_page_says_what_was_found():
    assert f"**{len(ended('untouched'))} load untouched**" in PAGE
    assert f"**{len(ended('untouched', SECOND))} of the second thirty**" in PAGE
    assert f"**{len(ended('untouched', THIRD))} of the third thirty**" in PAGE
    assert f"**{len(ended('untouched', FOURTH))} of the fourth thirty**" in PAGE
    assert not any(ended("not reached", result) for result in TRIALS)
    assert all(row["type"] in PAGE for result in (SECOND, THIRD, FOURTH) for row in ended("untouched", result))
    assert f"**{len(ended('edited'))} more with an edit" in PAGE
    assert f"**{len(ended('edited', THIRD))} of them with an edit" in PAGE
    assert f"**{len(ended('edited', FOURTH))} of them with an edit" in PAGE
    assert f"**{len(ended('mended check', FOURTH))} more the check was wrong**" in PAGE
    assert all(row["type"] in PAGE for row in ended("untouched"))
    assert all(row["missing"] for row in ended("not"))
    assert all(row["check"] and row["type"] in PAGE for row in ended("mended check", FOURTH))
    assert all(row["type"] in PAGE for row in ended("not", FOURTH))
