"""The bytes that collectives carry are those foretold."""

from __future__ import annotations

import json

import pytest
from benchmarks.equality import RANKS, Case, rows_of
from benchmarks.exchanges import RESULT, Exchange, cases_of

CASES = ("gpt2:tensor:adamw", "albert-base-v2:shard:adamw", "deepseek-v3:expert:adamw", "t5-small:pipeline interleaved:adamw")


def test_two_processes_send_the_bytes_foretold(start_in, tmp_path):
    found = [Exchange(**row) for row in rows_of("benchmarks.exchanges", map(Case.of, CASES), 2, tmp_path, start_in)]
    assert {each.case for each in found} == set(CASES)
    for each in found:
        assert each.counted
        assert each.counted == each.foretold, each.case
        assert each.held == each.held_foretold, each.case


@pytest.mark.slow
@pytest.mark.parametrize("ranks", RANKS)
def test_more_processes_send_the_bytes_foretold(ranks, tmp_path):
    found = [Exchange(**row) for row in rows_of("benchmarks.exchanges", cases_of(ranks), ranks, tmp_path)]
    assert len(found) == len(cases_of(ranks))
    assert all(each.equal for each in found)


def test_the_committed_table_is_whole_and_equal():
    results = [Exchange(**row) for row in json.loads(RESULT.read_text(encoding="utf-8"))["results"]]
    assert {(each.ranks, each.case) for each in results} == {(ranks, str(case)) for ranks in RANKS for case in cases_of(ranks)}
    assert all(each.equal for each in results)
