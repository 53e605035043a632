"""Every recipe is a valid run, and its committed result is better than its stated baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.recipes import COUNTED, FIRST, NEED, RESULT, digest, shortened

from anyformer import build
from anyformer.checkpoint import save
from anyformer.data import Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import get
from anyformer.objectives import Objective, PrefixObjective
from anyformer.text import Specials
from anyformer.training import load_run

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
RESULTS = {one["recipe"]: one for one in json.loads(RESULT.read_text(encoding="utf-8"))["results"]}


@pytest.fixture(scope="module")
def other_runs(tmp_path_factory) -> Path:
    """A directory with stand-ins for the models that some recipes start from or learn from."""
    place: Path = tmp_path_factory.mktemp("others")
    roles = Specials(roles=("system", "user", "assistant", "turn_end"))
    tokenizer = make_tokenizer(Bytes(), tuple, tuple, roles)
    for name, directory in FIRST.items():
        model = build(load_run(RECIPES[0].with_name(f"{name}.toml")).architecture)
        save(model, place / "runs" / directory, tokenizer=tokenizer)
    return place


@pytest.fixture(autouse=True)
def _beside_them(other_runs, monkeypatch):
    monkeypatch.chdir(other_runs)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_a_valid_run(path):
    run = load_run(path)
    assert (run.minutes is None) == (path.stem in COUNTED)
    assert run.evaluation.baseline
    assert shortened(path.stem).steps == RESULTS[path.stem]["updates"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_reached_better_than_its_baseline(path):
    result = RESULTS[path.stem]
    assert result["digest"] == digest(path.stem), f"the recipe has changed since: python -m benchmarks.recipes {path.stem}"
    assert result["loss"] < result["baseline"]["loss"]
    assert result["curve"][-1] == [result["updates"], result["loss"]]


def test_every_objective_has_a_recipe():
    assert {load_run(path).objective.kind for path in RECIPES} == set(Objective.kinds)
    assert set(NEED.values()) == set(FIRST)


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
