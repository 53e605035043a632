"""docs/studies/README.md is what the committed reports say, and these are of the recipes of today."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from anyformer.studies import Study, load_study
from anyformer.studies.statistics import compare

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "docs" / "studies"
TEXT = (STUDIES / "README.md").read_text(encoding="utf-8")
REPORTS = sorted(STUDIES.glob("*/report.json"))
MAKER = runpy.run_path(str(ROOT / "docs" / "make_studies.py"))


def test_the_page_is_that_of_today():
    assert MAKER["page"]() == TEXT, "run: python docs/make_studies.py"


def test_what_the_page_points_to_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (STUDIES / target).exists(), target


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.parent.name)
def test_a_committed_report_is_of_its_recipe_and_of_three_seeds_at_least(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    recipe = ROOT / "recipes" / "studies" / f"{path.parent.name}.toml"
    assert Study.parse(found["study"]) == load_study(recipe)
    assert len(found["seeds"]) >= 3
    assert f"recipes/studies/{recipe.name}" in TEXT + (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    for page in filter(Path.is_file, map(path.with_name, ("report.md", "report.html"))):
        text = page.read_text(encoding="utf-8")
        for each in found["comparisons"]:
            assert each["why"].split("; p = ")[0] in text, f"{page.name} is of another run than the numbers"


def test_every_finding_is_of_arms_that_its_recipe_has():
    study_of = cache(lambda name: load_study(ROOT / "recipes" / "studies" / f"{name}.toml"))
    for answer in MAKER["ANSWERS"]:
        for each in answer.findings:
            study = study_of(each.study)
            assert {each.arm, each.than} <= {study.base_name, *study.arms}, each.said
            assert each.length is None or each.length in study.lengths, each.said


def test_findings_of_a_study_are_judged_together(monkeypatch):
    """What would be told alone is not told beside three others that are not."""
    numbers = {"base": [1.0, 1.1, 1.2], "told": [1.5, 1.62, 1.71], "a": [1.3, 1.0, 1.2], "b": [1.0, 1.2, 1.1]}
    report = {
        "better": "lower", "alpha": 0.05, "lengths": [],
        "arms": [{"name": name, "numbers": dict(enumerate(each))} for name, each in numbers.items()],
    }  # fmt: skip
    finding = MAKER["Finding"]
    asked = tuple(finding(name, "made_up", name, "base", "worse") for name in ("told", "a", "b"))
    monkeypatch.setitem(MAKER["judged"].__globals__, "stored", lambda study: report)
    for count, verdict in ((1, "worse"), (3, "worse")):
        monkeypatch.setitem(MAKER["judged"].__globals__, "ANSWERS", (MAKER["Answer"]("?", "", asked[:count]),))
        assert MAKER["judged"](asked[0], report).verdict == verdict
    assert MAKER["outcome"](asked[0], MAKER["judged"](asked[0], report), 1.1, True) == "**holds**"
    assert MAKER["judged"](asked[1], report).verdict == "cannot tell"


def test_a_finding_of_an_arm_or_a_length_that_was_not_run_has_no_report():
    finding, study = MAKER["Finding"], "loops"
    assert MAKER["there"](finding("?", study, "six_layers", "one_layer"))
    assert MAKER["there"](finding("?", study, "made_up", "one_layer")) is None
    assert MAKER["there"](finding("?", study, "six_layers", "one_layer", length=7)) is None
    assert MAKER["there"](finding("?", "made_up", "six_layers", "one_layer")) is None


@pytest.mark.parametrize(("expected", "lower", "said"), [
    ("worse", True, "**does not hold here**: it is worse by 0.010 at most"),
    ("better", True, "cannot tell; about 9 seeds would"),
    ("worse", False, "cannot tell; about 9 seeds would"),
    ("better", False, "**does not hold here**: it is better by 0.010 at most"),
])  # fmt: skip
def test_a_finding_to_which_its_interval_leaves_next_to_nothing_does_not_hold(expected, lower, said):
    found = replace(
        compare({1: 4.0, 2: 4.0, 3: 4.1}, {"arm": {1: 3.9, 2: 4.0, 3: 4.0}})["arm"], verdict="cannot tell", needed=9
    )
    found = replace(found, interval=replace(found.interval, low=-0.3, high=0.01))
    finding = MAKER["Finding"]("?", "made_up", "arm", "base", expected)
    assert MAKER["outcome"](finding, found, 4.0, lower) == said


@pytest.mark.parametrize(("arm", "said"), [
    ({1: 4.001, 2: 4.0, 3: 4.099}, "**holds**"),
    ({1: 4.01, 2: 3.99, 3: 4.12}, "cannot tell; about 13 seeds would"),
    ({1: 4.5, 2: 4.6, 3: 4.7}, "**does not hold here**: it is worse"),
    ({1: 4.5, 2: 4.1, 3: 4.2}, "cannot tell; about 10 seeds would"),
])  # fmt: skip
def test_two_arms_are_equal_only_where_the_interval_leaves_next_to_nothing(arm, said):
    """That no difference is told does not show that there is none: the seeds are those that would show either."""
    found = compare({1: 4.0, 2: 4.0, 3: 4.1}, {"arm": arm})["arm"]
    assert MAKER["outcome"](MAKER["Finding"]("?", "made_up", "arm", "base"), found, 4.0, True) == said
