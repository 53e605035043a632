"""The size of a run is what the machine trains in its minutes; run.toml holds it, and repeats it."""

from __future__ import annotations

import io
from itertools import count
from pathlib import Path

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import DescriptionError, change_all, get, to_toml
from anyformer.operations import Shape
from anyformer.training import budget, load_run, read_run, sizing, train
from anyformer.training.journal import read_metrics
from anyformer.training.precision import Host
from anyformer.training.size import Smaller
from anyformer.training.sizing import sized, tokens_per_second

HOST = Host(torch.device("cpu"), {"fp32": 1e9})
MIDDLE = Smaller(below=6000, set=("architecture.width=16", "batch=2"))
SMALL = Smaller(below=3000, set=("architecture.width=8", "decoder.order=layer", "optimiser.learning_rate=1e-2"))


@pytest.fixture
def sizes(tiny):
    return change_all(tiny, {"steps": None, "minutes": 1.0, "smaller": [MIDDLE, SMALL]})


@pytest.fixture
def rates(monkeypatch):
    """Tokens per second by the width of the model, and the widths that were timed."""
    rates, timed = {}, []

    def rate(run, machine):
        timed.append(run.architecture.width)
        return rates[run.architecture.width]

    monkeypatch.setattr(sizing, "tokens_per_second", rate)
    return rates, timed


@pytest.mark.parametrize(
    ("speeds", "width", "asked"),
    [
        ({32: 100.0, 16: 100.0}, 32, [16, 32]),
        ({32: 99.0, 16: 50.0}, 16, [16, 32]),
        ({32: 1e9, 16: 49.0}, 8, [16]),
    ],
)
def test_the_largest_size_is_taken_of_which_the_minutes_hold_enough(sizes, rates, speeds, width, asked):
    """6,000 and 3,000 tokens in 60 s are 100 and 50 a second. Nothing larger than what is too slow is timed."""
    rates[0].update(speeds)
    run, said = sized(sizes, HOST, 60.0)
    assert (run.architecture.width, run.smaller, rates[1]) == (width, (), asked)
    assert (said == []) == (width == 32), "the run as it stands goes without saying"


def test_the_line_says_the_rate_and_both_sizes(sizes, rates):
    rates[0].update({32: 1e9, 16: 49.0})
    _, said = sized(sizes, HOST, 60.0)
    assert said == ["this machine trains 49 tokens/s of 10.34 k parameters: 3.424 k parameters instead of 23.74 k"]


def test_several_processes_train_as_many_times_the_tokens(sizes, rates):
    rates[0].update({32: 25.0, 16: 25.0})
    assert sized(sizes, HOST, 60.0, processes=4)[0].architecture.width == 32
    assert sized(sizes, HOST, 60.0, processes=1)[0].architecture.width == 8


def test_a_run_in_steps_is_trained_as_it_stands(sizes, rates):
    run, said = sized(change_all(sizes, {"minutes": None, "steps": 2}), HOST, 60.0)
    assert (run.architecture.width, run.smaller, said, rates[1]) == (32, (), [], [])


def test_the_rate_is_measured_on_updates_of_the_run(sizes, monkeypatch):
    seen, signal = [], type(sizes.objective).signal

    def watched(objective, model, examples, *more):
        seen.append((model.architecture.width, tuple(examples.targets.shape)))
        return signal(objective, model, examples, *more)

    monkeypatch.setattr(type(sizes.objective), "signal", watched)
    assert tokens_per_second(sizes, HOST) > 0
    assert 2 <= len(seen) <= sizing.TIMED + 1
    assert set(seen) == {(32, (2, 32))}, "micro-batches of the run"


def test_the_run_holds_its_size_and_repeats(sizes, rates, tmp_path, monkeypatch):
    """To the same weights, by the same losses of the same data."""
    monkeypatch.setattr(budget, "clock", count(0.0, 0.1).__next__)
    monkeypatch.setattr(budget.TimeBudget, "shortened", lambda self, step, steps: steps)
    rates[0].update({32: 1.0, 16: 1e9})
    console = Console(record=True, width=200, file=io.StringIO())
    run = change_all(sizes, {"minutes": 0.1, "smaller": [MIDDLE.but(below=10**6), SMALL], "checkpoints.every": 1})
    train(run, tmp_path / "run", console=console)
    assert "this machine trains 1 tokens/s" in console.export_text()
    chosen = read_run(tmp_path / "run")
    assert (chosen.architecture.width, chosen.batch, chosen.smaller, chosen.minutes) == (16, 2, (), None)
    train(tmp_path / "run" / "run.toml", tmp_path / "again", console=Console(quiet=True))
    facts = ("step", "loss", "data")
    first, again = (
        [[row[key] for key in facts] for row in read_metrics(tmp_path / name) if row["kind"] == "train"]
        for name in ("run", "again")
    )
    assert first == again
    digests = [
        checkpoint.read_manifest(checkpoint.directory_of(tmp_path / name, chosen.steps)).files["model.safetensors"]
        for name in ("run", "again")
    ]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, [MIDDLE.set, SMALL.set]),
        ({"seed": 1}, [MIDDLE.set, SMALL.set]),
        ({"decoder.layer.attention.dropout": 0.0}, [MIDDLE.set, SMALL.set]),
        ({"optimiser.learning_rate": 1e-4}, [MIDDLE.set, SMALL.set[:2]]),
        ({"optimiser": {"kind": "sgd"}}, [MIDDLE.set, SMALL.set[:2]]),
        ({"width": 64}, []),
    ],
)
def test_what_is_set_by_hand_comes_before_what_a_size_sets(sizes, tmp_path, changes, left):
    file = tmp_path / "run.toml"
    file.write_text(to_toml(sizes))
    assert [size.set for size in load_run(file, changes).smaller] == left


def test_a_size_that_does_not_fit_is_refused_before_any_work(sizes, tmp_path):
    run = sizes.but(smaller=(SMALL.but(set=("decoder.layer.attention.heads=3",)),))
    with pytest.raises(DescriptionError, match=r"smaller\.0\.set: .*heads"):
        train(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_every_size_of_the_first_run_is_a_run():
    """`make train`: each with the tokenizer that its table has rows for, and a model of its own."""
    found = sizing.sizes(load_run(Path(__file__).parents[2] / "recipes" / "stdlib.toml"))
    parameters = [one.architecture.trained_cost(Shape(source=1)).parameters for one in found]
    assert parameters == sorted(set(parameters), reverse=True)
    assert [get(one, "data.tokenizer.vocab") for one in found] == [get(one, "embedding.vocab") for one in found]
