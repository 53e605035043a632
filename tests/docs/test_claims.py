"""docs/reference/claims.md is up to date: every counted figure and every verdict is computed again, and every command runs."""

from __future__ import annotations

import runpy
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.claims import CLAIMS, RESULT, TOPICS
from benchmarks.claims.claim import computed, result

ROOT = Path(__file__).parents[2]
PRINTED = {claim.command: claim for claim in CLAIMS.values() if claim.command.startswith("anyformer")}
MEASURED = [claim for claim in CLAIMS.values() if claim.how == "measured"]
TRAINED = (
    "leak", "post-norm-gradients", "pre-norm-scales-gradients", "peak-as-counted", "router-collapses", "capacity-drops-less",
)  # fmt: skip
"""Measured claims that take more than a second."""


@pytest.fixture(scope="module")
def maker():
    return runpy.run_path(str(ROOT / "docs" / "make_claims.py"))


def test_the_page_is_that_of_today(maker):
    assert maker["PAGE"].read_text(encoding="utf-8") == maker["page"](), "run: python docs/make_claims.py"
    assert "(docs/reference/claims.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_claims_are_apart():
    assert len(CLAIMS) == sum(len(topic.claims) for topic in TOPICS), "two claims have one name"
    assert len({claim.sentence for claim in CLAIMS.values()}) == len(CLAIMS)
    for claim in CLAIMS.values():
        assert bool(claim.file) == (claim.how == "from results"), claim.name
        assert not claim.file or (ROOT / claim.file).exists(), claim.name


@pytest.mark.parametrize("command", PRINTED)
def test_commands_print_the_outcome(command, call):
    """Every figure that a claim says its command shows stands in what it prints."""
    printed = call(*shlex.split(command)[1:], columns=200)
    assert printed.returncode == 0, printed.stderr
    for claim in CLAIMS.values():
        if claim.command == command:
            assert claim.shows, claim.name
            words = " ".join(printed.stdout.split())
            missing = [text for text in claim.printed(claim.known()) if text not in words]
            assert not missing, f"{claim.name}: {missing} not in {words}"


def test_every_measured_claim_is_in_the_result_file():
    assert set(result(RESULT.name)["figures"]) == {claim.name for claim in MEASURED}


@pytest.mark.parametrize(
    "claim",
    [pytest.param(claim, id=claim.name, marks=[pytest.mark.slow] * (claim.name in TRAINED)) for claim in MEASURED],
)
def test_measured_figures_are_found_again(claim):
    """Seeds are fixed; processors differ in the last bits."""
    again, known = computed(claim.figures), claim.known()
    assert claim.verdict(again) == claim.verdict(known)
    assert dict(again) == pytest.approx(known, rel=0.05, abs=1e-3)


def test_a_verdict_follows_its_rule():
    """Figures on the other side of the rule turn the verdict."""
    claim = CLAIMS["cache-of-one-head"]
    figures = dict(claim.known())
    assert claim.verdict(figures) == "holds"
    assert claim.verdict(figures | {"times": 11}) == "does not hold"
    partly = replace(claim, holds=lambda f: f["times"] == 11, partly=lambda f: True, when="there are {times:g} heads")
    assert partly.verdict(figures) == "holds when there are 12 heads"
