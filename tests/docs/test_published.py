"""The page of published runs says what its data and the cost sheet say."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from anyformer.catalogue import architecture
from anyformer.costs import cost

DOCS = Path(__file__).parents[2] / "docs"
RUNS = tomllib.loads((DOCS / "published.toml").read_text())["run"]


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_published", DOCS / "make_published.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_run_has_a_source_and_something_to_hold_against():
    for run in RUNS:
        assert run["source"]
        assert {"hours", "rate", "tflops", "flops", "mfu"} & run.keys(), run["name"]
        assert run["tokens"] or "rate" in run


def test_the_page_holds_the_flops_of_today(maker):
    page = (DOCS / "published.md").read_text()
    for run in RUNS:
        flops = cost(architecture(run["name"]), length=run["length"]).flops.total.dense / run["length"]
        line = maker._flops(maker.Row(run, flops, None, False))
        assert f"| {' | '.join(line)} |\n" in page, run["name"]


def test_reported_utilisation_follows_from_reported_rates(maker):
    """Where authors give both a rate and an MFU, our FLOPs lead from one to the other."""
    found = {}
    for run in RUNS:
        if "mfu" in run and {"rate", "tflops"} & run.keys():
            flops = cost(architecture(run["name"]), length=run["length"]).flops.total.dense / run["length"]
            found[run["name"], run["gpus"]] = maker.Row(run, flops, None, False).mfu / run["mfu"] - 1
    other_convention = found.pop(("nemotron-4-340b", 128))
    assert other_convention < -0.1
    assert len(found) >= 4
    assert max(abs(gap) for gap in found.values()) < 0.02


def test_the_page_holds_a_prediction_of_today(maker):
    """The shortest to compute: of the authors' own layout on 64 accelerators."""
    run = next(run for run in RUNS if run["name"] == "gpt3-175b" and run["hardware"] == "a100")
    flops = cost(architecture(run["name"]), length=run["length"]).flops.total.dense / run["length"]
    row = maker.Row(run, flops, maker.predict(run), True)
    assert f"| {' | '.join(maker._time(row))} |\n" in (DOCS / "published.md").read_text()
    assert abs(row.error) < 0.3
