"""Mistakes in what `anyformer new` writes: each has its place there, and was tried and noticed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from benchmarks.extending.__main__ import RESULT, RIGHT, committed, every, outcomes
from benchmarks.extending.mistakes import known
from benchmarks.extending.taking import added, all_taken

from anyformer.starting_points import ROOMS, THINGS

KNOWN = known()
LEAST = 5
"""Mistakes of every thing that may stand outside the package."""
PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


def test_every_thing_has_mistakes_of_several_kinds():
    for thing in THINGS.values():
        if thing.alone:
            kinds = [each.kind for each in KNOWN if each.of == thing.name]
            assert len(kinds) >= LEAST, thing.name
            assert len(set(kinds)) >= LEAST - 2, thing.name


@pytest.mark.parametrize("mistake", KNOWN, ids=lambda each: f"{each.of}: {each.says}")
def test_a_mistake_has_its_place(mistake):
    compile(mistake.code(), mistake.of, "exec")


def test_a_mistake_without_a_place_is_told():
    with pytest.raises(ValueError, match=r"nowhere: 0 places of norm have 'no such line'"):
        replace(KNOWN[0], says="nowhere", before="no such line").code()


def test_all_were_tried_and_noticed_and_what_is_written_is_fine():
    found = committed()
    assert list(found) == every(), "run: python -m benchmarks.extending --new"
    assert [each.mistake for each in found.values() if not each.fine] == []
    record = json.loads(RESULT.read_text())
    assert record["caught"] == record["of"] == len(KNOWN)
    assert record["missed_when_first_made"] == sum(each.missed for each in KNOWN)


def test_what_each_takes_is_counted_and_stands_on_the_page():
    recorded = json.loads(RESULT.read_text())["takes"]
    assert list(recorded) == [*ROOMS]
    assert recorded == {name: asdict(each) for name, each in all_taken().items()}, "run: python -m benchmarks.extending --new"
    rows = {f"| {' | '.join(map(str, (name, *each.values())))} |" for name, each in recorded.items()}
    assert rows <= set(PAGE.read_text().splitlines()), "docs/extend.md, In a checkout"
    assert added("a\nb\nc\n", "a\nx\ny\nc\nd\n") == 3


def test_one_is_tried():
    """A mistake that the first contracts notice, in a process of its own."""
    (mistake,) = (each for each in KNOWN if each.says == "its ranges leave the query itself out")
    (found,) = outcomes([mistake])
    assert (found.fine, found.by) == (True, "ranges are the predicate")


@pytest.mark.slow
def test_every_mistake_is_noticed():
    assert [each.mistake for each in outcomes([each for each in every() if each.says != RIGHT]) if not each.fine] == []
