"""American spellings: taken wherever a name is known, and written back in ours."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
import typer
from typer.testing import CliRunner

import anyformer
from anyformer.cli import app
from anyformer.data import Data
from anyformer.describe import DescriptionError, change, change_all, from_json, from_toml, leads_to, spelled, to_json, to_toml
from anyformer.describe.spelling import in_american
from anyformer.describe.value import Value, subclasses
from anyformer.objectives import Objective
from anyformer.parts import Router
from anyformer.tasks import Task
from anyformer.training import Run

PAIRS = {
    "quantise": "quantize", "optimiser": "optimizer", "initialisation": "initialization", "initialise": "initialize",
    "normalise": "normalize", "renormalise": "renormalize", "exponential_normalised": "exponential_normalized",
    "centre": "center", "centred": "centered", "colour": "color", "tokeniser": "tokenizer", "labelled": "labeled",
    "memorisation": "memorization", "analyse": "analyze", "neighbours": "neighbors", "catalogue": "catalog", "grey": "gray",
}  # fmt: skip
TRIED = ("is", "ys", "our", "tre", "lled", "lling", "grey", "ogue")
"""What a name in British spelling may have."""
ROOMS = ("parts", "data", "objectives", "tasks", "training", "studies", "tuning", "planning", "precision", "model")


@pytest.mark.parametrize(("british", "american"), PAIRS.items())
def test_either_spelling_is_the_one_that_is_known(british, american):
    assert spelled(american, ["steps", british]) == british
    assert spelled(british, ["steps", american]) == american
    assert spelled(american, [british, american]) == american, "what is known stays as it is"
    assert spelled("stepz", [british]) == "stepz"


def test_a_name_that_could_be_several_in_another_spelling_is_none_of_them():
    assert spelled("labelled_center", ["labelled_centre", "labeled_center"]) == "labelled_center"


def written() -> list[tuple[str, list[str]]]:
    """Every place of names, and its names: commands, options of each, fields of each class, kinds of each family."""
    for room in ROOMS:
        package = importlib.import_module(f"anyformer.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    program = typer.main.get_command(app)
    places = [("commands", list(program.commands))]
    for verb, command in program.commands.items():
        places.append((verb, [name for each in command.params for name in (*each.opts, *each.secondary_opts)]))
    for each in subclasses(Value):
        places.append((each.__qualname__, list(each.model_fields)))
        if "kinds" in each.__dict__:
            places.append((f"kinds of {each.__qualname__}", list(each.kinds)))
    return places


def test_no_place_has_two_names_that_are_one_but_for_spelling_and_each_is_found_in_american():
    met = set()
    for place, names in written():
        assert len(set(map(in_american, names))) == len(set(names)), place
        for name in names:
            assert spelled(in_american(name), names) == name
            met |= {name} if in_american(name) != name else set()
    assert {"quantise", "optimiser", "initialisation", "renormalise", "exponential_normalised", "labelled"} <= met
    unknown = {
        name for _, names in written() for name in names for word in name.split("_") if word.endswith(("ise", "isation"))
    }
    assert unknown - met <= {"--noise", "noise", "precise"}, "a British ending that the table does not have"


def test_fields_of_a_file_and_paths():
    small = change(anyformer.architecture("llama-12m", tiny=True), "embedding.vocab", 512)
    data = {"kind": "text", "paths": ["python-stdlib"], "tokenizer": {"kind": "byte_pairs", "vocab": 512}}
    run = Run(minutes=5.0, length=64, data=Data.parse(data), architecture=small)
    text = to_toml(run)
    theirs = (
        text.replace("optimiser", "optimizer").replace("tokenizer", "tokeniser").replace("initialisation", "initialization")
    )
    assert theirs != text
    assert from_toml(Run, theirs) == run
    assert to_toml(from_toml(Run, theirs)) == text
    assert from_json(Run, to_json(run).replace("optimiser", "optimizer")) == run
    changed = change_all(run, {"optimizer.learning_rate": 0.5, "data.tokeniser.vocab": 300})
    assert (changed.optimiser.learning_rate, changed.data.tokenizer.vocab) == (0.5, 300)
    assert run.but(optimizer=changed.optimiser).optimiser == changed.optimiser


def test_a_field_in_both_spellings_is_refused():
    with pytest.raises(DescriptionError, match=r"(?s)renormalise is given twice, in two spellings"):
        Router.parse({"renormalise": True, "renormalize": False})


def test_errors_below_a_field_in_american_name_the_place():
    with pytest.raises(DescriptionError, match=r"optimiser.learning_rate: should be greater than 0, got -1"):
        Run.parse({"optimizer": {"kind": "adamw", "learning_rate": -1.0}})


def test_kinds():
    assert type(Task.parse({"kind": "memorization"})).kinds["memorisation"] is Task.kinds["memorization"]
    assert Task.parse({"kind": "memorization"}).plain()["kind"] == "memorisation"
    assert "lable" not in Data.kinds
    assert "labeled" in Data.kinds
    assert "causall" not in Objective.kinds


def test_paths_lead_to_places():
    assert leads_to("data.tokeniser.vocab", "data.tokenizer")
    assert leads_to("data.tokenizer", "data.tokenizer")
    assert not leads_to("data.tokenizers", "data.tokenizer")
    assert not leads_to("data", "data.tokenizer")


def test_commands_and_options():
    page = CliRunner().invoke(app, ["quantize", "--help"]).stdout
    assert page.splitlines()[0].startswith("Usage: anyformer quantise ")
    assert "did you mean 'quantise'" in CliRunner().invoke(app, ["quantice"]).stderr.lower()
