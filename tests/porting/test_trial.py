"""The trial of ports: the types are those of the drawing, and the page says what the committed result says."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TRIALS = {
    word: json.loads((RESULTS / f"port{tail}.json").read_text(encoding="utf-8"))
    for word, tail in (("first", ""), *((word, f"-{word}") for word in ("second", "third", "fourth", "fifth")))
}
RESULT = TRIALS["first"]
LATER = {word: result for word, result in TRIALS.items() if word != "first"}
PAGE = " ".join((ROOT / "docs" / "port.md").read_text(encoding="utf-8").split())
LINES = 20


def ended(outcome: str, result=RESULT) -> list[dict]:
    return [row for row in result["types"] if row["outcome"] == outcome]


def test_every_type_is_counted_once():
    for result in TRIALS.values():
        assert len({row["type"] for row in result["types"]}) == len(result["types"]) == 30
        assert result["counts"] == {outcome: len(ended(outcome, result)) for outcome in result["counts"]}
    assert len({row["type"] for result in TRIALS.values() for row in result["types"]}) == 30 * len(TRIALS)


def test_an_edit_is_there_and_short_enough():
    for row in (row for result in TRIALS.values() for row in ended("edited", result)):
        diff = (ROOT / "benchmarks" / "port_edits" / f"{row['type']}.diff").read_text(encoding="utf-8")
        added = sum(line.startswith("+") for line in diff.splitlines()[2:])
        assert row["lines"] == added <= LINES, row["type"]
        assert f"{row['type']} {added}" in PAGE.replace(" line", "")


def test_the_page_says_what_was_found():
    assert f"**{len(ended('untouched'))} load untouched**" in PAGE
    assert f"**{len(ended('edited'))} more with an edit" in PAGE
    assert all(row["type"] in PAGE for row in ended("untouched"))
    for word, result in LATER.items():
        assert f"**{len(ended('untouched', result))} of the {word} thirty**" in PAGE
        assert all(row["type"] in PAGE for row in ended("untouched", result))
        edited = len(ended("edited", result))
        assert not edited or f"**{edited} of them with an edit" in PAGE
        wrong = ended("mended check", result)
        assert not wrong or f"**{len(wrong)} more the check was wrong**" in PAGE
        assert all(row["check"] and row["type"] in PAGE for row in wrong)
    # A trial goes on where it was: the page says of how many types nothing is known yet.
    waiting = [row["type"] for result in TRIALS.values() for row in ended("not reached", result)]
    assert not waiting or f"{len(waiting)} types were not reached yet" in PAGE
    assert all(row["missing"] for result in TRIALS.values() for row in ended("not", result))
    assert all(row["type"] in PAGE for word in ("fourth", "fifth") for row in ended("not", TRIALS[word]))
