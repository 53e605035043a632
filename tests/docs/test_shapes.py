"""docs/shapes.md is made of its result, and the recipes that it compares are equal in all but their shape."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import anyformer as af
from anyformer.training import load_run

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "recipes" / "shapes"
SHAPES = ("bert", "gpt", "prefix", "t5")


@pytest.fixture(scope="module")
def maker():
    return runpy.run_path(str(ROOT / "docs" / "make_shapes.py"))


def made_up(shape: str, seed: int, better: float) -> dict[str, object]:
    draw = np.random.default_rng(seed)
    nats = (300 - better + draw.normal(size=30)).tolist()
    filled = {"right": [2] * 30, "nats": nats, "left_right": [1] * 30, "left_nats": nats}
    own = {"loss": 3.0, "accuracy": 0.4, "targets": 100}
    row = {"shape": shape, "seed": seed, "parameters": 1000, "updates": 7, "objective": "causal", "own": own}
    chances = {"continued": 6.5, "filled": 0.1, "classified": 0.2}
    pairs = {"nats": nats, "tokens": [10.0] * 30}
    measured = {"continued": nats, "continued_after": nats, "filled": filled, "classified": [1, 0] * 15, "summed_up": pairs}
    return row | measured | {"frequencies": chances}


def test_the_page_is_that_of_its_result(maker):
    study = maker["Study"](json.loads(maker["RESULT"].read_text(encoding="utf-8")))
    assert maker["PAGE"].read_text(encoding="utf-8") == maker["page"](study), "run: python docs/make_shapes.py"
    assert "(shapes.md)" in (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def test_a_verdict_needs_the_interval_and_every_seed(maker):
    """The first shape is better by 20 nats with both seeds; then by 20 with one and worse by 10 with the other."""
    claim = next(
        each for each in maker["CLAIMS"] if each.first == ("gpt", "continued") and each.second == ("bert", "continued")
    )
    for gains, verdict in (((20, 20), "holds"), ((-20, -20), "does not hold"), ((20, -10), "cannot tell")):
        rows = [made_up(shape, seed, gains[seed] if shape == "gpt" else 0) for shape in SHAPES for seed in (0, 1)]
        study = maker["Study"]({"results": rows})
        whole, seeds = study.difference(claim)
        assert whole.interval.value == pytest.approx(np.mean(seeds))
        assert study.verdict(claim) == verdict


def test_the_recipes_are_equal_in_parameters_text_and_updates():
    runs = {name: load_run(RECIPES / f"{name}.toml") for name in SHAPES}
    assert sorted(path.stem for path in RECIPES.glob("*.toml")) == sorted(runs)
    parameters = {name: af.cost(run.architecture, length=16).params.total for name, run in runs.items()}
    assert max(parameters.values()) / min(parameters.values()) < 1.01, parameters
    windows = {name: run.objective.window(run.length) for name, run in runs.items()}
    assert set(windows.values()) == {128}, windows
    same = ("seed", "steps", "batch", "data", "optimiser", "schedule")
    assert len({tuple(str(getattr(run, field)) for field in same) for run in runs.values()}) == 1
    assert len({run.objective.kind for run in runs.values()}) == len(runs)
