"""Mutants of the package: what is drawn, what counts, and that what was judged by hand is still there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="the extra `mutation`")

from benchmarks.mutations import covering, report, trial
from benchmarks.mutations.mutants import StatementRemover, changed_line, matters, operators, sample
from benchmarks.mutations.trial import Outcome

ROOT = Path(__file__).parents[2]
SOURCE = '''\
"""Numbers."""

from typing import Annotated, Any


def grown(x: int | None, by: "list[int | str]" = [1]) -> int | float:
    y: int | float = (x or 0) + 1
    y += 2
    print(y)
    return y * 3 if y > 4 else -y


class Size:
    n: Annotated[int | None, Field(ge=0)]
'''


@pytest.fixture
def tree(tmp_path):
    room = tmp_path / "src" / "small" / "room"
    room.mkdir(parents=True)
    (room / "numbers.py").write_text(SOURCE)
    return tmp_path


def test_a_mutant_changes_one_line_of_code_that_runs(tree):
    mutants = sample(tree, ("src/small/room",), 100, seed=0)
    for mutant in mutants:
        changed = mutant.applied(SOURCE)
        assert changed_line(SOURCE, changed) == (mutant.line, mutant.after)
        ast.parse(changed)
    changes = {(mutant.before.strip(), mutant.after.strip()) for mutant in mutants}
    assert ("y += 2", "pass") in changes
    assert ("print(y)", "pass") in changes
    assert {before for before, _ in changes} >= {"return y * 3 if y > 4 else -y", "n: Annotated[int | None, Field(ge=0)]"}
    assert not any("|" in before and "|" not in after for before, after in changes), "types do not run"


def test_an_edit_changes_the_sample_nowhere_else(tree):
    def keys():
        return {mutant.key: mutant.after for mutant in sample(tree, ("src/small/room",), 100, seed=0)}

    before = keys()
    assert keys() == before
    assert {mutant.key for mutant in sample(tree, ("src/small/room",), 100, seed=1)} != before.keys()
    path = tree / "src/small/room/numbers.py"
    path.write_text(SOURCE.replace("print(y)", "print(y)\n    print(x)").replace("class", "\n\nclass"))
    after = keys()
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1
    known: dict[str, object] = {}
    twice = [sample(tree, ("src/small/room",), 100, 0, known=known) for _ in range(2)]
    assert [{mutant.key: mutant.after for mutant in each} for each in twice] == [after, after]
    few = [mutant.key for mutant in sample(tree, ("src/small/room",), 5, seed=0)]
    assert few == sorted(after)[:5]


def test_types_are_no_code_and_their_limits_are():
    assert not matters("def f(x: int | None) -> int: return x", "def f(x: int & None) -> float: return x")
    assert matters("n: Annotated[int, Field(ge=0)]", "n: Annotated[int, Field(ge=1)]")
    assert not matters("x = 1", "x = = 1")


def test_operators_make_mistakes_that_somebody_could_make():
    names = set(operators())
    assert {"ReplaceBinaryOperator_Add_Sub", "ReplaceComparisonOperator_Lt_LtE", "AddNot", "NumberReplacer"} <= names
    assert StatementRemover.__name__ in names
    assert not names & {"ReplaceBinaryOperator_Add_BitOr", "ReplaceComparisonOperator_Eq_Is"}


def test_the_tests_of_a_line_are_chosen_the_shortest_first():
    tests = tuple(
        covering.Test(f"t{number}", seconds, {"a.py": lines})
        for number, (seconds, lines) in enumerate([(3.0, (1, 2)), (1.0, (2,)), (2.0, (3,)), (0.5, (2, 3))])
    )
    plain, elsewhere = covering.Test("plain", 0.2, {}), covering.Test("elsewhere", 0.1, {"c.py": (1,)})
    recorded = [covering.Recorded((*tests, plain), {}), covering.Recorded((elsewhere,), {})]

    def names(line, seconds):
        return [test.name for test in covering.chosen(recorded, "a.py", line, seconds)]

    assert names(2, 60) == ["t3", "t1", "t0", "plain", "t2"], "then those beside them"
    assert names(2, 2) == ["t3", "t1", "plain"]
    assert names(1, 0) == ["t0"], "one at least"
    for line in (None, 9):
        assert names(line, 60) == ["t3", "t1", "t2", "t0", "plain"], "a line of the module itself belongs to all"
    assert covering.chosen(recorded, "b.py", 1, 60) == []


def test_a_line_that_runs_at_the_import_is_told_from_one_of_a_function():
    source = "LIMIT = 3\n\n\nclass Room:\n    size: int = 2\n\n    def full(self, of=4):\n        return of > 1\n"
    assert [covering.in_function(source, line) for line in (1, 5, 7, 8)] == [False, False, False, True]


def test_the_score_leaves_equivalent_mutants_out(tree):
    mutants = sample(tree, ("src/small/room",), 100, seed=0)[:5]
    kinds = ["killed", "time", "survived", "uncovered"]
    outcomes = {mutant.key: Outcome(kind) for mutant, kind in zip(mutants, kinds, strict=False)}
    same = mutants[2]
    known = [report.Equivalent(same.path, same.before.strip(), same.after.strip(), "it is the same")]
    score = report.scored(mutants, outcomes, known)["all"]
    assert (score.sampled, score.tried, score.equivalent, score.killed) == (5, 4, 1, 2)
    assert score.share == pytest.approx(2 / 3)
    assert report.survivors(mutants, outcomes, known) == [mutants[3]]
    assert f"-{mutants[3].before}\n+{mutants[3].after}" in report.diff(mutants[3], SOURCE)


def test_what_was_judged_by_hand_is_still_there():
    for each in report.equivalents():
        lines = [line.strip() for line in (ROOT / each.path).read_text(encoding="utf-8").splitlines()]
        assert each.before in lines, f"equivalent.toml: {each.path} has no line {each.before!r} any more"
        assert each.before != each.after
        assert each.reason


@pytest.mark.slow
def test_a_mutant_dies_by_the_test_that_sees_it(tmp_path):
    root = tmp_path / "root"
    (root / "src" / "small").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "src" / "small" / "__init__.py").write_text("def twice(x):\n    return 2 * x\n\n\ndef loud(x):\n    return x\n")
    (root / "test_small.py").write_text(
        "import small\n\n\ndef test_one():\n    assert small.loud(1)\n\n\ndef test_two():\n    assert small.twice(2) == 4\n"
    )
    with trial.copied(root, tmp_path / "place") as tree:
        recorded = trial.recorded(tree, "test_small.py", ("src/small",))
        assert recorded is not None
        assert {test.name: list(test.lines.values()) for test in recorded.tests} == {
            "test_small.py::test_one": [(6,)],
            "test_small.py::test_two": [(2,)],
        }
        outcomes = {}
        for mutant in sample(tree, ("src/small",), 10, seed=0):
            tests = covering.chosen([recorded], mutant.path, mutant.line, 10)
            outcomes[mutant.after.strip()] = trial.tried(tree, mutant, tests)
        assert all(outcome.by == "test_small.py::test_two" for outcome in outcomes.values() if outcome.kind == "killed")
        assert "killed" in {outcome.kind for outcome in outcomes.values()}
        assert trial.run(tree, list(recorded.tests)) == Outcome("survived")
        assert (tree / "src/small/__init__.py").read_text() == (root / "src/small/__init__.py").read_text()
