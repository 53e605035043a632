"""Mistakes made by hand: their lines and tests are still there, and the committed result says that each is caught."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from benchmarks.mutations import by_hand

ROOT = Path(__file__).parents[2]
KNOWN = by_hand.known()


@pytest.mark.parametrize("each", KNOWN, ids=lambda each: each.says)
def test_a_mistake_can_be_made_again(each):
    source = (ROOT / each.path).read_text(encoding="utf-8")
    wrong = each.mutant(source).applied(source)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(source))
    file, _, test = each.tests.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8") if test else (ROOT / file).is_file()


def test_a_line_that_is_not_there_once_is_no_place_for_a_mistake():
    with pytest.raises(ValueError, match="has 2 lines 'x = 1'"):
        by_hand.Known("twice", "a.py", "x = 1", "x = 2", "t.py").mutant("x = 1\nx = 1\n")


def test_the_committed_result_is_whole_and_each_is_caught():
    found = by_hand.committed()
    assert list(found) == KNOWN, "run: python -m benchmarks.mutations.by_hand --new"
    for mistake, each in found.items():
        assert each.outcome == "killed", mistake.says
        assert mistake.tests in (each.by, *each.by.split("["), *each.by.split("::")), mistake.says
