"""Prefix tuning: a trained model gets virtual tokens, which alone learn."""

from __future__ import annotations

import torch
from rich.console import Console

import anyformer as af
from anyformer import checkpoint
from anyformer.describe import change_all
from anyformer.training import train
from anyformer.tuning import Tuning

QUIET = Console(quiet=True)


def test_virtual_tokens_are_new_and_all_else_is_taken_and_kept(tiny, tmp_path):
    train(tiny, tmp_path / "base", console=QUIET)
    run = change_all(tiny, {"decoder.layer.attention.virtual_tokens": 3})
    run = run.but(start_from=str(tmp_path / "base"), tuning=Tuning(train_only=("*.virtual_*",)))
    train(run, tmp_path / "run", console=QUIET)
    base, _ = af.load(tmp_path / "base")
    tuned, _ = af.load(tmp_path / "run")
    same = {name for name, parameter in base.named_parameters() if torch.equal(parameter, tuned.get_parameter(name))}
    assert same == set(dict(base.named_parameters()))
    new = set(dict(tuned.named_parameters())) - same
    assert len(new) == 2 * 2
    assert all("virtual_" in name for name in new)
    state = checkpoint.read(checkpoint.directory_of(tmp_path / "run", 8) / "optimiser.safetensors")
    assert {key.rpartition("/")[0] for key in state} == new
