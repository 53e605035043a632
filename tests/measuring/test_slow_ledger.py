"""The ledger of slow tests: a sample is no whole, and what changed or failed is run again."""

from __future__ import annotations

import pytest
from benchmarks import slow_tests

FILE = "tests/parts/test_mask.py"


def line(**changes):
    return {"version": slow_tests.version(FILE), "commit": "c", "passed": 3, "seconds": 2, **changes}


@pytest.mark.parametrize(
    ("found", "whole", "three"),
    [
        (line(), True, True),
        (line(sample=3, of=9), False, True),
        (line(sample=2, of=9), False, False),
        (line(failed=1), False, False),
        (line(error=1), False, False),
        (line(version="another"), False, False),
        (None, False, False),
    ],
)
def test_what_passed_as_it_is_now(found, whole, three):
    assert slow_tests.passed(found, FILE, 9) == whole
    assert slow_tests.passed(found, FILE, 3) == three


def test_a_summary_counts_files_of_which_a_sample_ran():
    asked = {FILE: 9, "tests/a.py": 5, "tests/b.py": 1}
    said = slow_tests.summary({FILE: line(sample=3, of=9), "tests/b.py": line(failed=1, passed=0)}, asked)
    assert (said["files"], said["of"], said["by a sample"], said["cases"]) == (2, 3, 1, 15)
    assert (said["passed"], said["failed"]) == (3, 1)


def test_files_and_directories_are_run_in_their_order():
    asked = {FILE: 1, "tests/parts/test_band.py": 2, "tests/data/test_rows.py": 3}
    assert list(slow_tests.among(asked, ["tests/data", "tests/parts"])) == ["tests/data/test_rows.py", FILE, *list(asked)[1:2]]
    assert slow_tests.among(asked, []) == asked
    with pytest.raises(SystemExit, match="tests/part has no slow test"):
        slow_tests.among(asked, ["tests/part"])


def test_a_sample_is_the_same_cases_in_their_order():
    every = [f"{FILE}::test_{number}" for number in range(30)]
    drawn = slow_tests.drawn(every, 7, FILE)
    assert drawn == slow_tests.drawn(every, 7, FILE) == [name for name in every if name in drawn]
    assert len(drawn) == 7
    assert drawn != slow_tests.drawn(every, 7, "another")
    assert slow_tests.drawn(every, 99, FILE) == every
