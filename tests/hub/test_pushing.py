"""A model to a hub: what is sent and what never is, in one commit, and loaded from there by transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import constants
from typer.testing import CliRunner

import anyformer as af
from anyformer import hub as hubs
from anyformer.cli import app
from anyformer.describe import UserError
from anyformer.hub import HubError
from hub_server import READER, WRITER, Hub
from huggingface.layouts import LAYOUTS, write

SENT = {"README.md", "LICENSE", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write(LAYOUTS["chat with several ends"], tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def ours(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub, where somebody who may write is logged in."""
    monkeypatch.setenv("HF_TOKEN", WRITER)
    return hub


def asked(*words: str | Path, answer: str = "") -> str:
    result = CliRunner().invoke(app, [*map(str, words)], input=answer)
    if result.exit_code:
        raise result.exception or AssertionError(result.output)
    return result.output


@pytest.mark.usefixtures("asked_by_others")
def test_what_is_pushed_is_loaded_by_transformers(ours, model, tmp_path):
    said = asked("export", model, "--push", "lab/copy", "--private", "--message", "First")
    made = ours.repositories["lab/copy"]
    assert made.private
    assert made.messages == ["initial commit", "First"]
    assert set(made.files) >= SENT
    assert "digests.json" not in made.files
    assert f"hub:lab/copy@{made.references['main']}" in said
    theirs = transformers.AutoModelForCausalLM.from_pretrained("lab/copy", cache_dir=constants.HF_HUB_CACHE).eval()
    own, tokenizer = af.load("hub:lab/copy")
    tokens = torch.tensor([[1, 2, 3, 4]])
    assert torch.allclose(theirs(tokens).logits, own(tokens), atol=1e-5)
    assert transformers.AutoTokenizer.from_pretrained("lab/copy", cache_dir=constants.HF_HUB_CACHE).encode(
        "hello", add_special_tokens=False
    ) == tokenizer.encode("hello")
    assert {path.name for path in tmp_path.iterdir()} <= {"model", "cache", "hub-cache"}, "nothing is left of the export"


def test_a_dry_run_shows_every_file_and_pushes_nothing(ours, model, tmp_path):
    said = asked("export", model, tmp_path / "out", "--push", "copy", "--dry-run")
    assert "/ada/copy (is made, public, branch main):" in said
    files = hubs.files_of(tmp_path / "out")
    assert [name for name in files if name not in said] == []
    assert files.keys() >= SENT
    assert ours.repositories == {}
    shown = json.loads(asked("export", model, tmp_path / "again", "--push", "copy", "--dry-run", "--json"))
    assert shown["pushed"]["files"].keys() == files.keys()
    assert shown["pushed"]["commit"] is None


def test_a_public_place_is_confirmed(ours, model, monkeypatch):
    with pytest.raises(UserError, match="nobody is at a terminal to confirm it: give --yes, or --private"):
        asked("export", model, "--push", "lab/copy")
    monkeypatch.setattr("anyformer.cli.pushing.somebody", lambda: True)
    with pytest.raises(UserError, match="nothing was pushed"):
        asked("export", model, "--push", "lab/copy", answer="n\n")
    assert ours.repositories == {}
    asked("export", model, "--push", "lab/copy", answer="y\n")
    assert not ours.repositories["lab/copy"].private


def test_one_commit_replaces_the_weights_and_leaves_other_files(ours, model):
    before = {"model-00001-of-00002.safetensors": b"a", "model.safetensors.index.json": b"{}", "notes.md": b"mine"}
    made = ours.add("lab/copy", {**before, "pytorch_model.bin": b"x"})
    said = asked("export", model, "--push", "lab/copy", "--yes")
    assert "removed     model-00001-of-00002.safetensors" in said
    assert len(made.commits) == 2
    assert set(made.files) >= {*SENT, "notes.md", "pytorch_model.bin"}
    assert not {"model-00001-of-00002.safetensors", "model.safetensors.index.json"} & set(made.files)


def test_a_branch_is_made_and_the_main_one_stays(ours, model):
    made = ours.add("lab/copy", {"notes.md": b"mine"})
    asked("export", model, "--push", "lab/copy@trial", "--yes")
    assert set(made.files) == {"notes.md"}
    assert "model.safetensors" in made.commits[made.references["trial"]]
    assert af.load("hub:lab/copy@trial")[0].architecture == af.load(model)[0].architecture


@pytest.mark.parametrize("failing", ["PUT /upload", "POST /api/models/lab/copy/commit", "POST /api/validate-yaml"])
def test_what_fails_leaves_the_model_as_it_was(ours, model, failing):
    made = ours.add("lab/copy", {"notes.md": b"mine"})
    ours.failing = failing
    with pytest.raises(HubError, match="hub:lab/copy"):
        asked("export", model, "--push", "lab/copy", "--yes")
    assert made.files == {"notes.md": b"mine"}
    assert len(made.commits) == 1


@pytest.mark.parametrize(
    ("token", "words", "said"),
    [
        (None, ["--push", "lab/copy"], "nobody is logged in here"),
        (READER, ["--push", "lab/copy"], "the token may only read"),
        ("hf_unknown", ["--push", "lab/copy"], "refuses the token"),
        (WRITER, ["--push", "others/copy"], "ada may make one as ada, lab alone: push to ada/copy"),
        (WRITER, ["--push", "lab/old", "--private"], "exists and is public; make it private at"),
        (WRITER, ["--push", "lab/old/x.gguf"], "a model is pushed to ORG/NAME"),
        (WRITER, ["--push", "https://huggingface.co/lab/old"], "did you mean hub:lab/old?"),
        (WRITER, ["--private", "--yes"], "--private and --yes: are about a push: give --push ORG/NAME too"),
        (WRITER, [], "name OUT, the new directory to write, or --push ORG/NAME"),
        (WRITER, ["--adapter", "--push", "lab/copy"], "give --base hub:ORG/NAME too"),
    ],
)
def test_a_push_that_cannot_be_is_refused_before_any_work(hub, model, monkeypatch, token, words, said):
    hub.add("lab/old", {"notes.md": b"mine"})
    monkeypatch.setattr("anyformer.loading.load", None)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UserError) as refused:
        asked("export", model, *words)
    assert said in str(refused.value)
    assert not [each for each in hub.asked if each.startswith("POST")]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("README.md", "see {model}/letters", "the path of the model here"),
        ("chat_template.jinja", "{{# hf_abcdefghijklmnopqrstuvwxyz0123456789 #}}", "a token of a hub"),
        ("notes.txt", "/home/ada/work", "the path of a home directory"),
    ],
)
def test_what_is_nobodys_business_is_not_pushed(ours, model, monkeypatch, file, text, said):
    monkeypatch.setenv("HOME", "/home/ada")
    (model / file).write_text(text.format(model=model) if "{model}" in text else text)
    with pytest.raises(HubError, match=rf"{file}: has {said} in it, so nothing was pushed"):
        asked("export", model, "--push", "lab/copy", "--yes")
    assert ours.repositories == {}
