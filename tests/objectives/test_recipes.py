"""The recipes of objectives with heads: each is a run, and reaches a lower loss than its baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from anyformer.training import load_run, train

RECIPES = Path(__file__).parents[2] / "recipes"
NAMES = ["classification", "regression", "token-labels", "spans", "contrastive", "images"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_a_run_of_its_objective(name):
    run = load_run(RECIPES / f"{name}.toml")
    assert run.objective.kind == {"images": "image_classification"}.get(name, name.replace("-", "_"))
    assert run.data.paths[0] in (
        "digits",
        "python-modules",
        "python-branches",
        "python-names",
        "python-spans",
        "python-similar",
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_better_than_its_baseline(name, tmp_path):
    trained = train(load_run(RECIPES / f"{name}.toml"), tmp_path / "run", console=Console(quiet=True))
    assert trained.validation.loss < 0.9 * trained.baseline[1]
