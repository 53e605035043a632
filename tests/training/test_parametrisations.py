"""Runs with muP of width and depth, and with u-muP, resume bit for bit: their rates follow from the description."""

from __future__ import annotations

from shutil import copytree, rmtree

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.parts import Initialisation, MaximalUpdate, Normal, UnitScaledUpdate
from anyformer.training import resume, train
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import AdamW

QUIET = Console(quiet=True)
STARTS = {
    "depth": Initialisation(mup=MaximalUpdate(base_width=16, base_depth=1, depth_exponent=0.5)),
    "unit": Initialisation(matrix=Normal(std=1.0), embedding=Normal(std=1.0), mup=UnitScaledUpdate(length=32)),
}


@pytest.mark.parametrize("starts", STARTS)
def test_a_run_resumes_to_the_same_bits(starts, tiny, tmp_path):
    run = tiny.but(architecture=tiny.architecture.but(initialisation=STARTS[starts]), optimiser=AdamW(learning_rate=1e-2))
    run = run.but(checkpoints=tiny.checkpoints.but(every=4, keep=2))
    whole = train(run, tmp_path / "whole", console=QUIET)
    copytree(tmp_path / "whole", tmp_path / "parts")
    rmtree(checkpoint.directory_of(tmp_path / "parts", 8))
    parts = resume(tmp_path / "parts", console=QUIET)
    assert parts.model.architecture == run.architecture
    for name, parameter in whole.model.named_parameters():
        assert torch.equal(parameter, parts.model.get_parameter(name)), name
    assert len({group["factor"] for group in build_optimiser(run.optimiser, parts.model).param_groups}) > 2
