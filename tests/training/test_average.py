"""Averages of weights: their formula, where they are used, and that continuing a run changes no bit."""

from __future__ import annotations

import hashlib
import shutil

import pytest
import torch
from rich.console import Console
from torch import nn

import anyformer as af
from anyformer import checkpoint
from anyformer.describe import DescriptionError
from anyformer.training import resume, train
from anyformer.training.average import EMA
from anyformer.training.averaging import averaged
from anyformer.training.journal import read_metrics
from anyformer.tuning import Dora, Lora, Tuning

QUIET = Console(quiet=True)


def test_a_moving_average_is_its_formula():
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    average = EMA(decay=0.9).of(model)
    expected = model.weight.detach().double()
    for step in range(5):
        with torch.no_grad():
            model.weight.add_(torch.full((2, 3), 0.1 * step))
        average.updated()
        expected = 0.9 * expected + 0.1 * model.weight.detach().double()
    trained = model.weight.detach().clone()
    with averaged(average.weights) as before:
        torch.testing.assert_close(model.weight.double(), expected)
        assert torch.equal(before[model.weight], trained)
    assert torch.equal(model.weight, trained), "to the bit"
    assert list(average.weights()) == [model.weight], "only of what learns"


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_an_average_that_forgets_all_or_never_moves_is_refused(decay):
    with pytest.raises(DescriptionError, match="decay"):
        EMA(decay=decay)


def test_what_is_evaluated_loaded_and_kept_is_the_average(tiny, tmp_path):
    run = tiny.but(average=EMA(decay=0.7))
    trained = train(run, tmp_path / "run", console=QUIET)
    last = train(tiny, tmp_path / "without", console=QUIET)
    tokens = torch.arange(24)[None]
    model, _ = af.load(tmp_path / "run")
    assert torch.equal(model(tokens), trained.model(tokens))
    # Training itself does not depend on the average.
    losses = [[row["loss"] for row in read_metrics(tmp_path / name) if row["kind"] == "train"] for name in ("run", "without")]
    assert losses[0] == losses[1]
    assert trained.validation.loss != last.validation.loss
    state = checkpoint.read(checkpoint.directory_of(tmp_path / "run", 8) / "optimiser.safetensors")
    for name, parameter in last.model.named_parameters():
        assert torch.equal(state[f"{name}/trained"], parameter), "the checkpoint holds both"
        assert not torch.equal(model.get_parameter(name), parameter)


def test_a_run_moves_the_average_at_each_update(tiny, tmp_path):
    """After one update the average is w + decay (first - w): as far from w as decay is large, whatever the first weights."""
    run = tiny.but(steps=1)
    plain = train(run, tmp_path / "plain", console=QUIET).model.state_dict()
    quarter, half = (
        train(run.but(average=EMA(decay=decay)), tmp_path / str(decay), console=QUIET).model.state_dict()
        for decay in (0.25, 0.5)
    )
    for name, weight in plain.items():
        assert not torch.equal(half[name], weight)
        torch.testing.assert_close(2 * (quarter[name] - weight), half[name] - weight, rtol=1e-3, atol=1e-6)


def digests(directory) -> dict[str, str]:
    last = checkpoint.directory_of(directory, 8)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(last.glob("*.safetensors"))}


@pytest.mark.parametrize(
    ("tuning", "average"),
    [
        (Tuning(adapter=Lora(rank=2)), EMA(decay=0.7)),
        (Tuning(adapter=Dora(rank=2), train_only=("*norm*",)), None),
        (Tuning(frozen=("embedding.*",)), EMA(decay=0.7)),
    ],
    ids=["lora and average", "dora and norms", "frozen and average"],
)
def test_a_run_that_was_cut_off_ends_with_the_same_bits(tiny, tmp_path, tuning, average):
    """Every file of tensors: weights, adapter, averages, moments; and every loss."""
    run = tiny.but(tuning=tuning, average=average)
    train(run, tmp_path / "run", console=QUIET)
    shutil.copytree(tmp_path / "run", tmp_path / "cut")
    shutil.rmtree(checkpoint.directory_of(tmp_path / "cut", 8))
    resume(tmp_path / "cut", console=QUIET)
    assert digests(tmp_path / "cut") == digests(tmp_path / "run")
    rows = [[(row["kind"], row["step"], row["loss"]) for row in read_metrics(tmp_path / name)] for name in ("cut", "run")]
    assert rows[0] == rows[1]
