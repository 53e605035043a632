"""`docs/preferences.md` has the figures of its committed results."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "preferences.md"


@pytest.fixture
def maker(monkeypatch):
    monkeypatch.syspath_prepend(PAGE.parent)  # whose page_text it imports
    return runpy.run_path(str(PAGE.parent / "make_preferences.py"))


def test_the_figures_are_those_of_the_results(maker):
    assert maker["pages"]() == {PAGE: PAGE.read_text(encoding="utf-8")}, "run: python docs/make_preferences.py"


def test_what_was_planted_is_learnt(maker):
    walks = json.loads((maker["RESULTS"] / "aligning.json").read_text(encoding="utf-8"))["walks"]
    assert walks["reward model"]["accuracy"]["mean"] >= 0.95
    for name in ("dpo", "kto", "policy"):
        starts = walks["answers"]["fitting"]["seeds"]
        assert all(own > start for own, start in zip(walks[name]["fitting"]["seeds"], starts, strict=True)), name


@pytest.mark.parametrize(("better", "said"), [(3, "is the better one here"), (0, "does not beat"), (1, "does not tell")])
def test_the_page_says_which_way_of_distilling_is_better(maker, better, said):
    figure = lambda seeds: {"right": {"mean": 0.5, "interval": [0.4, 0.6], "seeds": seeds}}  # noqa: E731
    own = [0.9] * better + [0.1] * (3 - better)
    record = {name: figure([0.5] * 3) for name in ("teacher", "student", "offline")} | {"on-policy": figure(own)}
    assert said in maker["taught"]({"distillation": record})
