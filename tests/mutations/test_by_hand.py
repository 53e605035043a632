"""Mistakes made by hand: their lines and tests are still there, and the committed result says that each is caught."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.mutations import by_hand

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "anyformer"
KNOWN = by_hand.known()
LEAST = 2
"""Mistakes of a room at least."""
KINDS = {
    "arguments", "axis", "cache", "condition", "counted twice", "default", "dtype", "eps", "factor", "file", "gradient", "leak",
    "left out", "mask", "mode", "name", "off by one", "order", "padding", "rounding", "scale", "seed", "share", "sign", "stale",
    "unit", "weight decay",
}  # fmt: skip
"""What people do wrong."""


def rooms() -> set[str]:
    """The folders of the package, those of parts one by one, and the room that is a file."""
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("**/__init__.py")}
    return {room for room in folders if room.count("/") == room.startswith("parts")} - {".", "parts"} | {"api"}


@pytest.mark.parametrize("each", KNOWN, ids=lambda each: each.says)
def test_a_mistake_can_be_made_again(each):
    source = (ROOT / each.path).read_text(encoding="utf-8")
    wrong = each.mutant(source).applied(source)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(source))
    file, _, test = each.tests.partition("[")[0].partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8") if test else (ROOT / file).is_file()


def test_a_line_that_is_not_there_once_is_no_place_for_a_mistake():
    with pytest.raises(ValueError, match="has 2 lines 'x = 1'"):
        by_hand.Known("twice", "a", "sign", "a.py", "x = 1", "x = 2", "t.py").mutant("x = 1\nx = 1\n")


def test_every_room_has_mistakes_and_every_kind_is_made():
    assert {each.kind for each in KNOWN} == KINDS
    for each in KNOWN:
        assert (PACKAGE / each.room).with_suffix("" if each.room != "api" else ".py").exists(), each.says
        assert each.path.startswith(f"src/anyformer/{each.room}"), each.says
    found = Counter(each.room for each in KNOWN)
    assert not {room: found[room] for room in rooms() if found[room] < LEAST}, "rooms without mistakes"
    assert len({each.says for each in KNOWN}) == len(KNOWN) >= 150


def test_the_committed_result_is_whole_and_each_is_caught():
    found = by_hand.committed()
    assert list(found) == KNOWN, "run: python -m benchmarks.mutations.by_hand --new"
    for mistake, each in found.items():
        assert each.outcome == "killed", mistake.says
        assert mistake.tests in (each.by, *each.by.split("["), *each.by.split("::")), mistake.says
