"""`anyformer reward`: answers of a file, graded, and what is said where they cannot be."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anyformer.cli import app
from anyformer.describe import UserError

ROWS = [
    {"prompt": "2 + 2", "response": ["4", "five", "4"], "gold": "4"},
    {"prompt": "3 + 3", "response": ["7", "8"], "gold": "6"},
    {"prompt": [{"role": "user", "content": "5 + 5"}], "response": "10\u001b[2J", "gold": 10},
]
MATCH = '{kind="exact_match",column="gold"}'


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def told(*words: str) -> str:
    found = CliRunner().invoke(app, ["reward", "answers.jsonl", *words])
    if found.exception is not None:
        raise found.exception
    return found.stdout


def test_what_rewards_say_is_printed():
    said = told("--reward", MATCH)
    assert "6 answers to 3 prompts, reward exact_match: mean 0.3333, standard deviation 0.4714" in said
    assert "0  4  ####" in said
    assert "the rewards differ in 1 of 2 groups" in said
    assert "answers.jsonl:1  2 + 2   five" in said
    assert "\u001b" not in told("--reward", MATCH, "--worst", "9"), "what a model wrote commands no terminal"


def test_rewards_that_never_vary_are_said_to_teach_nothing():
    assert "no reward varies within any of 2 groups" in told("--reward", '{kind="pattern",pattern="x"}')


def test_data_has_all_of_it_and_a_file_may_name_the_reward(file):
    (file / "run.toml").write_text(
        f'plugins = ["mine.py"]\n[objective]\nkind = "policy"\nreward = {MATCH.replace("=", " = ")}\n'
    )
    (file / "reward.toml").write_text('kind = "exact_match"\ncolumn = "gold"\n')
    for name in ("run.toml", "reward.toml"):
        found = json.loads(told("--reward", name, "--json"))
        assert found["rewards"] == [1, 0, 1, 0, 0, 0]
        assert (found["groups"], found["varying"], found["parts"]) == (2, 1, {"right": 2 / 6})


def test_fields_have_other_names(file):
    rows = [{"q": "a", "a": "b", "done": done, "answer": "b"} for done in (True, False)]
    (file / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(told("--reward", "finished", "--prompt", "q", "--answer", "a", "--ended", "done", "--json"))
    assert found["rewards"] == [1, 0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reward", "exact_macht"], "did you mean 'exact_match'"),
        (["--reward", "exact_match"], "no field 'answer' .*of the prompt '2 \\+ 2'; name the field"),
        (["--reward", MATCH, "--answer", "said"], "no field 'said'"),
        (["--reward", "task"], "'2 \\+ 2' is of no generated task"),
        (["--reward", '{kind="pattern",pattern="("}'], "is no regular expression"),
        (["--reward", '{kind="function",function="mine"}'], "no plug-in defines it"),
        (["--reward", "none.toml"], "none.toml"),
        (["--reward", MATCH, "--ended", "gold"], "should be true or false"),
    ],
)
def test_what_cannot_be_graded_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        told(*words)
