"""`anyformer generate --chat`: one question, or several turns at a prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app, chatting
from anyformer.describe import UserError, change_all
from anyformer.text import DataError, Tokenizer
from text.chat.folders import LOGICS, plain, write

GREEDY = ("--temperature", "0", "-n", "6")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A chat model in Hugging Face's layout."""
    folder = tmp_path_factory.mktemp("talking")
    names = [
        {"name": "default", "template": plain(LOGICS["thinking"])},
        {"name": "dated", "template": plain(LOGICS["dated"])},
    ]
    tokenizer = Tokenizer.load(write(folder / "tokenizer", names))
    sizes = {"embedding.vocab": tokenizer.vocab_size, "head.tied": False}
    tiny = change_all(af.architecture("llama-12m", tiny=True), sizes)
    built = af.build(tiny, seed=1)
    with torch.no_grad():  # so that what it says depends on what it reads
        for weight in built.parameters():
            weight.mul_(5 if weight.dim() > 1 else 1)
    af.export(built, folder / "model", tokenizer=tokenizer)
    return folder / "model"


def said(model: Path, *options: str, lines: str = "") -> str:
    found = CliRunner().invoke(app, ["generate", str(model), *options], input=lines)
    assert found.exit_code == 0, (found.output, found.exception)
    return found.stdout


def theirs(model: Path, lines: list[str], begun: list[dict] | None = None, **variables: object) -> list[str]:
    """The answers of transformers to one line after the other."""
    tokenizer, loaded = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model).eval()
    turns, answers = list(begun or []), []
    for line in lines:
        turns.append({"role": "user", "content": line})
        given = tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, return_tensors="pt", return_dict=True, **variables
        )
        with torch.no_grad():
            out = loaded.generate(**given, do_sample=False, max_new_tokens=6, eos_token_id=tokenizer.eos_token_id)
        answers.append(tokenizer.decode(out[0, given["input_ids"].shape[1] :], skip_special_tokens=True))
        turns.append({"role": "assistant", "content": answers[-1]})
    return answers


def test_three_turns_are_those_of_transformers(model):
    lines = ["hi", "what then?", "and now"]
    expected = "".join(f"{answer}\n" for answer in theirs(model, lines))
    assert said(model, "--chat", *GREEDY, lines="\n".join([*lines, "", "/exit", "never"])) == expected


def test_how_a_chat_begins(model, tmp_path):
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"}]
    (tmp_path / "turns.json").write_text(json.dumps(turns))
    system = [{"role": "system", "content": "Be short."}]
    options = ["--system", "Be short.", "--messages", str(tmp_path / "turns.json"), "--template-set", "enable_thinking=false"]
    (expected,) = theirs(model, ["hi"], [*system, *turns], enable_thinking=False)
    assert said(model, "hi", "--chat", *options, *GREEDY) == f"hi\n{expected}\n"
    assert said(model, "--chat", *options, *GREEDY, lines="hi\n") == f"{expected}\n"
    (plainly,) = theirs(model, ["hi"])
    assert plainly != expected
    (dated,) = theirs(model, ["hi"], chat_template="dated")
    assert said(model, "hi", "--chat", "--template", "dated", *GREEDY) == f"hi\n{dated}\n"


def test_a_question_in_the_file_is_answered_first(model, tmp_path):
    (tmp_path / "turns.jsonl").write_text('{"from": "human", "value": "hi"}\n')
    (expected,) = theirs(model, ["hi"])
    assert said(model, "--chat", "--messages", str(tmp_path / "turns.jsonl"), *GREEDY) == f"hi\n{expected}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '[{"role": "user", "content": "x"}]'),
        ("a.json", '{"messages": [{"role": "user", "content": "x"}], "id": 3}'),
        ("a.jsonl", '{"role": "user", "content": "x"}\n'),
        ("a.jsonl", '{"messages": [{"role": "user", "content": "x"}]}\n'),
    ],
)
def test_files_of_turns(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert chatting.turns_of(tmp_path / name) == [{"role": "user", "content": "x"}]


def test_what_is_wrong_is_named(model, tmp_path):
    (tmp_path / "a.json").write_text("[")
    with pytest.raises(UserError, match=r"a\.json: no JSON"):
        chatting.turns_of(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"turns": 1}')
    with pytest.raises(DataError, match="should be a list of turns"):
        chatting.turns_of(tmp_path / "a.json")
    with pytest.raises(DataError, match="should be a list of JSON schemas"):
        chatting.tools_of(tmp_path / "a.json")
    with pytest.raises(UserError, match="should be NAME=VALUE"):
        chatting.ChatOptions(chat=True, template_set=["enable_thinking"]).begun()
    for options, words in (
        (["hi", "--system", "x"], "add --chat"),
        ([], "or none with --chat"),
        (["hi", "--chat", "--template", "rag"], "this tokenizer has dated, default"),
    ):
        found = CliRunner().invoke(app, ["generate", str(model), *options])
        assert words in str(found.exception)


def test_values_of_variables():
    chat = chatting.ChatOptions(chat=True, template_set=["enable_thinking=false", "mood=calm", "n=3"]).begun()
    assert chat is not None
    assert chat.variables == {"enable_thinking": False, "mood": "calm", "n": 3}
