"""`anyformer match` as a user meets it."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs import UnmatchedError, budget_of
from anyformer.describe import UserError


def call(*arguments):
    result = CliRunner().invoke(app, ["match", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def rows(output):
    return {words[0]: words[1:] for line in output.splitlines() if (words := re.split(r"\s{2,}", line.strip()))}


def number(text):
    return int(text.replace(",", ""))


def test_what_is_written_is_what_is_said(tmp_path):
    path = tmp_path / "small.toml"
    said = rows(call("llama-3-8b", "--params", "1.3B", "--output", str(path)))
    assert str(path) in said
    made = af.architecture(path)
    assert af.cost(made).params.total == number(said["parameters"][1])
    assert abs(af.cost(made).params.total / 1.3e9 - 1) <= 0.005
    assert number(said["parameters"][2]) == 1_300_000_000
    assert said["width"][:2] == ["4,096", f"{made.width:,}"]
    assert said["depth"] == ["32", "32"]


@pytest.mark.parametrize(
    ("option", "given", "target"),
    [
        ("--active-params", "2B", ("active", 2 * 10**9)),
        ("--flops", "8G", ("training_flops", 8 * 10**9)),
        ("--decode-bytes", "2.5G", ("decode_bytes", 25 * 10**8)),
    ],
)
def test_other_budgets(tmp_path, option, given, target):
    path = tmp_path / "made.toml"
    call("mixtral-8x7b", option, given, "--length", "8k", "--move", "depth,ffn", "--output", str(path))
    what, wanted = target
    assert abs(getattr(budget_of(af.architecture(path), length=8192), what) / wanted - 1) <= 0.005


def test_another_architecture_is_a_budget():
    said = rows(call("gpt2", "--like", "llama-2-7b", "--by", "params,decode-bytes", "--move", "width,depth,ffn"))
    theirs = budget_of(af.architecture("llama-2-7b"))
    assert number(said["parameters"][2]) == theirs.parameters
    assert number(said["bytes read to decode a token"][2]) == theirs.decode_bytes
    for what in ("parameters", "bytes read to decode a token"):
        assert abs(float(said[what][3].rstrip("%"))) <= 0.5


def test_compute_optimal_sizes_say_where_they_come_from():
    printed = call("llama-3-8b", "--compute-optimal", "5.76e23", "--move", "width,depth,ffn")
    output = " ".join(printed.split())
    # Chinchilla: 70 B parameters on 1.4 T tokens
    assert "69.28 G parameters on 1.386 T tokens (20.0 per parameter)" in output
    assert "arXiv 2203.15556" in output
    assert "arXiv 2404.10102" in output
    assert abs(number(rows(printed)["parameters used by one token"][1]) / 69.28e9 - 1) <= 0.005


def test_questions_without_an_answer():
    with pytest.raises(UserError, match="nothing to match: give --params"):
        call("gpt2")
    with pytest.raises(UserError, match="--by takes no 'param'; did you mean 'params'"):
        call("gpt2", "--like", "llama-2-7b", "--by", "param")
    with pytest.raises(UserError, match="--move takes no 'heads'"):
        call("gpt2", "--params", "1B", "--move", "heads")
    with pytest.raises(UnmatchedError, match="The nearest is ffn = 8, with parameters"):
        call("llama-3-8b", "--params", "1M", "--move", "ffn")
    refused = CliRunner().invoke(app, ["match", "gpt2", "--params", "many"])
    assert refused.exit_code == 2
    assert "is not a number like 1.3B" in re.sub(r"[^\w.]+", " ", refused.output)


def test_python_has_it_too():
    found = af.match(af.architecture("llama-12m"), af.Budget(parameters=20_000_000))
    assert found.error <= 0.005


@pytest.mark.parametrize("name", ["made.toml", "made.json"])
def test_the_name_of_a_file_says_its_format(name, tmp_path):
    path = tmp_path / name
    call("gpt2", "--params", "50M", "--output", str(path))
    assert af.cost(af.architecture(path)).params.total == pytest.approx(50e6, rel=0.005)
    assert (path.read_text()[0] == "{") is (path.suffix == ".json")


@pytest.mark.parametrize(
    ("name", "says"),
    [("made.txt", "should end in|ends in .toml or .json"), ("nowhere/made.toml", "does not exist"), ("there.toml", "by hand")],
)
def test_a_place_that_a_description_is_not_written_to_is_refused_before_any_work(name, says, tmp_path):
    (tmp_path / "there.toml").write_text("mine")
    with pytest.raises(UserError, match=says):
        call("no-such-architecture", "--params", "50M", "--output", str(tmp_path / name))
    assert (tmp_path / "there.toml").read_text() == "mine"
