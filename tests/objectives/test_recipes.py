"""Every recipe is a valid run; the slow test trains each to better than its stated baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from anyformer.describe import get
from anyformer.objectives import PrefixObjective
from anyformer.training import load_run, train

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
OF_TEXT = ("denoising", "masked", "prefix", "replaced-tokens", "seq2seq", "span-corruption", "ul2")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_a_valid_run(path):
    run = load_run(path)
    assert run.minutes is not None
    assert run.evaluation.baseline


def test_the_architecture_is_changed_before_the_objective_of_a_file_is_held_against_it(tmp_path):
    """The catalogue's entry has no prefix mask, and the file's table gives it one."""
    file = tmp_path / "run.toml"
    mask = '{ kind = "any_of", masks = [{ kind = "causal" }, { kind = "prefix" }] }'
    head = 'steps = 1\narchitecture = "llama-12m"\n[data]\npaths = ["x"]\n[objective]\nkind = "prefix"\n'
    file.write_text(f'{head}[set]\n"architecture.decoder.layer.attention.mask" = {mask}\n"batch" = 3\n')
    run = load_run(file, {"architecture.width": 192})
    assert isinstance(run.objective, PrefixObjective)
    assert (run.batch, run.architecture.width) == (3, 192)
    file.write_text(head)
    with pytest.raises(ValueError, match="needs attention that reads a prefix both ways"):
        load_run(file)
    read = load_run(file, {"architecture.decoder.layer.attention.mask": get(run, "decoder.layer.attention.mask")})
    assert read.objective == run.objective


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TEXT)
def test_a_recipe_reaches_better_than_its_baseline(name, tmp_path):
    path = next(path for path in RECIPES if path.stem == name)
    trained = train(load_run(path), tmp_path / name, console=Console(quiet=True))
    assert trained.baseline is not None
    assert trained.validation.loss < trained.baseline[1]
