"""Every command answers in JSON too, and says nothing else when it is asked to be quiet."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import typer
from tests.testing.unloading import forgetting
from typer.testing import CliRunner

from anyformer.cli import COMMANDS, app
from anyformer.cli.as_json import print_json
from anyformer.cli.quiet import progress_aside, with_quiet
from text.chat.folders import LOGICS, plain, write_model

PROGRAM = typer.main.get_command(app)
STUDY = """
title = "does the width matter?"
seeds = [1, 2]
[base]
length = 16
batch = 2
steps = 2
architecture = "small.toml"
data = {paths = ["text.txt"], tokenizer = {kind = "bytes"}}
[arms.wider]
set = ["decoder.layer.feedforward.width=32"]
"""
PART = """
from typing import Literal
from anyformer.tasks import Copying

class Twice(Copying):
    "Copying under another name."
    kind: Literal["twice"] = "twice"
"""
RUN = """
architecture = "small.toml"
steps = 1
length = 16
data = {paths = ["text.txt"], tokenizer = {kind = "bytes"}}
"""
ASKED = {
    "help": ("help costs --json", "topics"),
    "list": ("list gemma --json", "name"),
    "show": ("show gpt2 --json", "decoder"),
    "diff": ("diff gpt2 gpt2 --set decoder.layer.attention.kv_heads=1 --json", "costs"),
    "atlas": ("atlas norms --json", "sections"),
    "explore": ("explore gpt2 --json", "figures"),
    "cost": ("cost gpt2 --mode decode --json", "name"),
    "plan": ("plan gpt2 --gpus 2 --batch-tokens 8k --length 512 --json", "fastest"),
    "match": ("match gpt2 --params 60M --json", "sizes"),
    "data": ("data inspect small.toml --data text.txt --set length=16 --rows 1 --json", "samples"),
    "train": ("train small.toml --data text.txt --set length=16 --set steps=1 --out run --json", "tokens_per_second"),
    "watch": ("watch watched --json", "state"),
    "launch": ("launch run.toml --nodes 1 --gpus 2 --json", "submit"),
    "generate": ("generate MODEL hello --max-tokens 2 --temperature 0 --json", "tokens"),
    "reward": ("reward answers.jsonl --reward exact_match --json", "varying"),
    "serve": ("serve MODEL --places 2 --length 32 --json", "state_bytes"),
    "eval": ("eval MODEL --data text.txt --set length=16 --json", "data"),
    "probe": ("probe MODEL --task induction --lengths 16 --sequences 2 --json", "tasks"),
    "inspect": ("inspect MODEL --json", "heads"),
    "compare": ("compare study.toml --dry-run --json", "arms"),
    "transform": ("transform MODEL --pad-vocab 64 --out padded --json", "lines"),
    "quantise": ("quantise MODEL --out small --json", "format"),
    "import": ("import MODEL imported --json", "parameters"),
    "export": ("export MODEL exported --json", "model_type"),
    "verify": ("verify MODEL --length 4 --json", "agrees"),
    "conform": ("conform - MODEL --save golden.json --cases plain --json", "saved"),
    "port": ("port unread --json", "nearest"),
    "new": ("new mixer mixer_of_mine --json", "written"),
    "check": ("check parts_of_mine.py --only twice --json", "holds"),
}
"""A question for each command, and a key of its answer."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Text, a small architecture, a study, a plug-in and a run; a chat model in Hugging Face's layout."""
    here = tmp_path_factory.mktemp("place")
    (here / "text.txt").write_text("some words of text, and some more of them\n" * 200)
    (here / "study.toml").write_text(STUDY)
    (here / "parts_of_mine.py").write_text(PART)
    small = CliRunner().invoke(app, ["show", "llama-12m", "--tiny", "--toml"])
    (here / "small.toml").write_text(small.stdout)
    (here / "watched").mkdir()
    (here / "watched" / "run.toml").write_text("steps = 4\n")
    (here / "run.toml").write_text(RUN)
    (here / "answers.jsonl").write_text('{"prompt": "2 + 2", "response": ["4", "5"], "answer": "4"}\n')
    write_model(here, plain(LOGICS["thinking"]))
    shutil.copytree(here / "model", here / "unread")
    config = here / "unread" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": "unread"}))
    return here


@pytest.fixture
def ask(place, call):
    def asked(words: str):
        with forgetting():
            found = call(*words.replace("MODEL", "model").split(), cwd=place)
        assert found.returncode == 0, found.stderr
        return found

    return asked


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_answers_in_json_alone(verb, ask):
    words, key = ASKED[verb]
    answer = json.loads(ask(words).stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    first = answer[0] if isinstance(answer, list) else answer
    assert key in first, first.keys()


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_has_quiet(verb):
    assert "--quiet" in {option for each in PROGRAM.commands[verb].params for option in each.opts}


def test_quiet_leaves_the_answer_alone(ask):
    words = "train small.toml --data text.txt --set length=16 --set steps=1"
    loud, quiet = ask(f"{words} --out loud"), ask(f"{words} --out quiet --quiet")
    assert "loading torch" in loud.stderr
    assert "step" in loud.stdout
    assert quiet.stderr == ""
    assert quiet.stdout.startswith("validation loss"), "and no line of progress before it"


def test_an_error_is_told_nevertheless():
    def fails() -> None:
        print("a note", file=sys.stderr)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        with_quiet(fails)(quiet=True)


def test_progress_goes_aside(capsys):
    with progress_aside(True):
        print("progress")
    with progress_aside():
        print("more")
    assert capsys.readouterr() == ("more\n", "progress\n")


def test_what_json_has_not(capsys):
    print_json({"a": float("inf"), "b": Path("c"), "d": (1, float("nan"))})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": "c", "d": [1, None]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("generate model --chat --json", "give a PROMPT or --file"),
        ("train small.toml --data text.txt --verify-resume --json", "leave one of them out"),
    ],
)
def test_what_has_no_answer_in_json_is_refused(words, said, place, call):
    found = call(*words.split(), cwd=place)
    assert found.returncode == 2
    assert said in found.stderr
