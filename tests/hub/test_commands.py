"""A model of a hub wherever a directory is taken: what is fetched, and what is written of where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
import torch
from typer.testing import CliRunner

import anyformer as af
from anyformer import checkpoint, loading
from anyformer.cli import app
from anyformer.cli.answering import key_of
from anyformer.data import Text, TokenizerFile
from anyformer.describe import UserError, to_toml
from anyformer.hub import HubError
from anyformer.text import Tokenizer
from anyformer.training.run import default_run, load_run
from anyformer.training.starting import take
from anyformer.training.teacher import fingerprint
from huggingface.layouts import LAYOUTS, write

NAME = "hub:lab/model"


@pytest.fixture
def published(hub, tmp_path: Path) -> str:
    """The commit of a model with a tokenizer and a template, two parts of weights, and files that nobody needs."""
    write(LAYOUTS["chat with several ends"], tmp_path / "published")
    made = hub.add("lab/model", tmp_path / "published")
    made.commit({**made.files, "pytorch_model.bin": b"pickled", "logo.png": b"picture"})
    return made.references["main"]


def asked(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    if result.exit_code:
        raise result.exception or AssertionError(result.output)
    return result.output


def test_questions_about_an_architecture_ask_for_its_configuration_alone(hub, published):
    architecture = af.architecture(NAME)
    assert asked("show", NAME).startswith(NAME)
    assert NAME in asked("cost", NAME, "--length", "16", "--mode", "prefill")
    assert "nothing differs" in asked("diff", NAME, f"{NAME}@{published}")
    assert hub.fetched == ["config.json"]
    assert af.architecture({"architecture": NAME, "data": {"kind": "text", "paths": ["x"]}}) == architecture
    model, _ = af.load(NAME)
    assert model.architecture == architecture == af.architecture(NAME)


def test_a_model_is_loaded_as_from_its_directory(hub, published, tmp_path):
    model, tokenizer = af.load(NAME)
    there, their_tokenizer = af.load(tmp_path / "published")
    assert tokenizer == their_tokenizer
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in there.state_dict().items())
    assert loading.trained_length(NAME) == loading.trained_length(tmp_path / "published")
    assert not {"pytorch_model.bin", "logo.png", ".gitattributes"} & set(hub.fetched)
    assert len(hub.fetched) == len(set(hub.fetched))


def test_what_is_imported_names_its_commit(hub, published, tmp_path):
    said = asked("import", NAME, str(tmp_path / "checkpoint"))
    assert f"from {NAME}@{published}" in said
    assert checkpoint.read_manifest(tmp_path / "checkpoint").facts["source"] == f"{NAME}@{published}"


def test_a_run_names_the_commit_that_it_began_from_and_needs_no_hub_to_be_read(hub, published, tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be " * 50)
    run = default_run(af.architecture("gpt2", tiny=True), (str(tmp_path / "text.txt"),))
    data = {key: value for key, value in run.plain().items() if key not in ("architecture", "start_from")}
    data["data"] = {key: value for key, value in data["data"].items() if key != "tokenizer"}
    (tmp_path / "run.toml").write_text(tomli_w.dumps({**data, "start_from": NAME}))
    begun = load_run(tmp_path / "run.toml")
    assert begun.start_from == f"{NAME}@{published}"
    assert begun.data.tokenizer == TokenizerFile(path=f"{NAME}@{published}")
    assert begun.architecture == af.architecture(NAME)
    tokenizer = Tokenizer.load(begun.data.tokenizer.path)
    assert take(af.build(begun.architecture), begun.start_from, tokenizer).new == ()
    hub.asked.clear()
    hub.down = True
    (tmp_path / "begun.toml").write_text(to_toml(begun))
    assert load_run(tmp_path / "begun.toml") == begun
    assert hub.asked == []


def test_a_quiet_command_says_nothing_of_what_it_fetches(hub, published, tmp_path):
    for quiet in ([], ["--quiet"]):
        result = CliRunner().invoke(app, ["import", f"{NAME}@{published}", str(tmp_path / f"to{len(quiet)}"), *quiet])
        assert result.exit_code == 0
        assert ("fetching hub:lab/model" in result.stderr) == (not quiet)


def test_a_teacher_is_known_by_the_files_of_its_commit(hub, published, tmp_path):
    assert fingerprint(NAME) == fingerprint(f"{NAME}@{published}")
    made = hub.repositories["lab/model"]
    made.commit({**made.files, "generation_config.json": b"{}"})
    assert fingerprint(NAME) != fingerprint(f"{NAME}@{published}")


def test_a_tokenizer_is_fetched_without_weights(hub, published, tmp_path):
    assert Tokenizer.load(NAME) == Tokenizer.load(tmp_path / "published")
    assert [name for name in hub.fetched if "safetensors" in name] == []
    Text(paths=("x",), tokenizer=TokenizerFile(path=NAME))


@pytest.mark.parametrize("place", [NAME, "s3://bucket/run"])
def test_answers_about_what_may_change_are_not_kept(place):
    assert key_of("show", {"what": "gpt2"}, ()) is not None
    assert key_of("show", {"what": place}, ()) is None


def test_what_has_no_weights_here_is_refused_before_it_is_fetched(hub):
    hub.add("lab/model", {"config.json": b"{}", "pytorch_model.bin": b"pickled"})
    with pytest.raises(HubError, match="unpickling can run anybody's code"):
        af.load(NAME)
    assert hub.fetched == []


def test_a_bare_name_and_an_address_say_what_is_meant(hub, published):
    for text in ("lab/model", "hf://lab/model", "https://huggingface.co/lab/model"):
        with pytest.raises(UserError, match="hub:lab/model"):
            af.load(text)
