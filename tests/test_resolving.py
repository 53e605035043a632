"""Whatever names an architecture is resolved in one place, for every command and every function of the public API."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest

import anyformer as af
from anyformer import checkpoint, huggingface
from anyformer.describe import UserError, to_json, to_toml
from anyformer.resolving import is_run

RUN = """
steps = 2
architecture = "near.json"
[data]
paths = ["text.py"]
[set]
"embedding.vocab" = 300
"architecture.width" = 32
"batch" = 4
"""


@pytest.fixture(scope="module")
def llama():
    return af.architecture("llama-12m", tiny=True)


@pytest.fixture(scope="module")
def places(tmp_path_factory, llama):
    """Every form that the same tiny architecture comes in, by name."""
    place = tmp_path_factory.mktemp("forms")
    (place / "toml.toml").write_text(to_toml(llama))
    (place / "near.json").write_text(to_json(llama))
    (place / "run.toml").write_text(RUN.split("[set]")[0])
    model = af.build(llama)
    checkpoint.save(model, place / "checkpoint")
    huggingface.export(model, place / "exported")
    (place / "bare").mkdir()
    (place / "bare" / "config.json").write_bytes((place / "exported" / "config.json").read_bytes())
    return {
        "toml": str(place / "toml.toml"),
        "json": place / "near.json",
        "run": place / "run.toml",
        "run directory": place,
        "checkpoint": place / "checkpoint",
        "Hugging Face directory": str(place / "exported"),
        "directory without weights": place / "bare",
        "config.json": place / "bare" / "config.json",
        "configuration": json.loads((place / "bare" / "config.json").read_text()),
        "plain data": llama.plain(),
        "value": llama,
    }


@pytest.mark.parametrize(
    "form",
    ["toml", "json", "run", "run directory", "checkpoint", "Hugging Face directory", "directory without weights",
     "config.json", "configuration", "plain data", "value"],
)  # fmt: skip
def test_every_form_is_the_same_architecture(places, llama, form):
    assert af.cost(places[form]).params == af.cost(llama).params
    assert af.difference(places[form], llama).costs == af.difference(llama, llama).costs
    assert not [change for change in af.difference(places[form], llama).details if "initialisation" not in change.what]


def test_the_verbs_take_names_and_changes_come_after_shrinking(llama):
    assert af.architecture("llama-12m", tiny=True, changes={"width": 32}).width == 32
    assert af.cost("gpt2").params.total == 124_439_808
    assert sum(p.numel() for p in af.build("gpt2", device="meta").parameters()) == 124_439_808
    assert af.match(llama, af.Budget(parameters=30_000)).architecture != llama


def test_a_run_gives_its_architecture_with_its_own_changes(tmp_path, llama):
    (tmp_path / "near.json").write_text(to_json(llama))
    (tmp_path / "a.toml").write_text(RUN)
    found = af.architecture(tmp_path / "a.toml")
    assert (found.width, found.embedding.vocab) == (32, 300)
    assert is_run(tmp_path / "a.toml")
    assert not is_run(tmp_path / "near.json")
    assert not is_run("gpt2")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("gpt-2000", "no architecture is called 'gpt-2000'"),
        ("nowhere.toml", "no such file"),
        ({"widht": 3}, "did you mean 'width'"),
        ({"model_type": "lama"}, "lama"),
        (5, "got int"),
        (None, "got NoneType"),
        ({}, "width: is required"),
    ],
    ids=str,
)
def test_what_names_nothing_is_refused_in_words(what, words):
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        af.architecture(what)


def test_a_directory_and_a_file_of_another_kind_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds none of run\.toml"):
        af.architecture(tmp_path)
    (tmp_path / "five.json").write_text("5")
    with pytest.raises(UserError, match="should be a table, got int"):
        af.architecture(tmp_path / "five.json")
    assert not is_run(tmp_path / "five.json")


def test_the_package_lists_its_names_and_runs_as_a_module():
    assert {"cost", "build", "train", "change", "diff", "architecture"} <= set(dir(af))
    assert all(getattr(af, name) is not None for name in dir(af))
    assert pickle.loads(pickle.dumps(af.architecture("gpt2"))) == af.architecture("gpt2")
    result = subprocess.run([sys.executable, "-m", "anyformer", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"anyformer {af.__version__}\n"
