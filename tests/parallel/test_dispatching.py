"""Experts by all-gather and by all-to-all: the bytes by the formula, and the same numbers."""

from __future__ import annotations

import json

from benchmarks.dispatching import RANKS, RESULT, WAYS, foretold, found_by


def test_both_ways_compute_the_same_and_send_what_is_foretold(start_in):
    rows = found_by(2, start_in)
    assert [row["way"] for row in rows] == list(WAYS)
    for row in rows:
        assert row["bytes"] == foretold(2)[row["way"]]
        assert row["error"] < 1e-6


def test_the_committed_result_is_whole():
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["results"]
    assert {(row["ranks"], row["way"]) for row in rows} == {(ranks, way) for ranks in RANKS for way in WAYS}
    assert all(row["bytes"] == row["foretold"] and row["error"] < 1e-6 for row in rows)
