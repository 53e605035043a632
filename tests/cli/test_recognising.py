"""`--data` of chats, without a word on what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from text.chat.folders import LOGICS, plain, write_model

SIZES = ["--set", "length=64", "--set", "batch=4"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A chat model in Hugging Face's layout, whose template has no marks."""
    return write_model(tmp_path_factory.mktemp("chat-model"), plain(LOGICS["thinking"]))


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(row: dict[str, object], *more: str):
        lines = (json.dumps(row).replace('"a"', f'"a{n}"') for n in range(30))
        Path("rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return CliRunner().invoke(app, [*more, "--data", "rows.jsonl", *SIZES])

    return run


TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"}]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"messages": TURNS}, "data: chats in `messages` (kind = 'chats'), for the instruction objective"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "data: preferences: `chosen` and `rejected` (kind = 'preferences'), "
                                                          "for the dpo objective"),
    ],
)  # fmt: skip
def test_what_was_recognised_is_said(invoke, model, row, said):
    found = invoke(row, "data", "inspect", str(model), "--set", f"start_from={model}", "--rows", "1")
    assert found.exit_code == 0, found.output
    assert said in found.stderr


def test_an_objective_needs_no_kind_of_data(invoke, model, tmp_path):
    asked = ("train", "--start-from", str(model), "--objective", "instruction", "--set", "steps=2", "--out", "run")
    found = invoke({"messages": TURNS}, *asked)
    assert found.exit_code == 0, found.output
    assert af.load(tmp_path / "run")


def test_fields_of_other_names(invoke, model):
    row = {"question": "a", "reply": "b"}
    inspect = ("data", "inspect", str(model), "--objective", "instruction", "--rows", "1", "--set", f"start_from={model}")
    found = invoke(row, *inspect)
    assert "its fields are question, reply, and none of the forms" in str(found.exception)
    named = ("--set", "data.kind=prompts", "--set", "data.prompt=question", "--set", "data.answer=reply")
    found = invoke(row, *inspect, *named)
    assert found.exit_code == 0, found.output
    assert "<|im_start|>user" in found.output
    found = invoke(row, *inspect, "--set", "data.kind=promts")
    assert "did you mean 'prompts'" in str(found.exception)
