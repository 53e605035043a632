"""Memory and FLOPs of every objective's step: predicted from what it declares, and measured on the run itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from unittest import mock

import pytest
import torch

from anyformer import checkpoint
from anyformer.costs.memory_check import TOKEN_BYTES, NotEnoughMemoryError, memory_warnings
from anyformer.model.transformer import build
from anyformer.plan import Plan
from anyformer.training import Run
from anyformer.training.held_out import corpus_of
from anyformer.training.memory_meter import TENSORS_AT, MemoryMeter
from anyformer.training.precision import Host
from anyformer.training.priced import step_of
from anyformer.training.summary import update_figures
from anyformer.training.trainer import Trainer
from objectives.test_resuming import CASES, data_of

CPU = torch.device("cpu")
SHAPES = (
    "classification", "seq2seq", "images", "dpo", "replaced_tokens", "distillation", "distillation_kept", "contrastive", "ul2",
    "instruction", "speech_to_text", "ctc", "sounds", "segmentation", "image_regression", "sound_to_text",
)  # fmt: skip
"""Padding, a source, images, two rows of a sample beside a reference, a generator that learns, a teacher, answers of one, no
head, targets shorter than their sources, documents, a source of frames, frames with padding, frames without, a target per
pixel, real numbers, a sound among the tokens."""
BATCH = 16


@pytest.fixture(scope="module")
def run(request, tmp_path_factory) -> Iterator[Run]:
    """A run of a case, for all tests of it."""
    case, place = CASES[request.param], tmp_path_factory.mktemp("case")
    if case.teacher:
        checkpoint.save(build(case.model, seed=99), place / "teacher")
    plain = {
        "steps": 3, "batch": BATCH, "length": case.length, "objective": case.objective, "data": data_of(case, place),
        "architecture": case.model.plain(), "plan": Plan(precision="fp32", compile="off").plain(),
    }  # fmt: skip
    with contextlib.chdir(place), mock.patch.dict(os.environ, {"ANYFORMER_CACHE": str(place / "cache")}):
        yield Run.parse(plain)


@pytest.fixture(scope="module")
def trainer(run) -> Trainer:
    return Trainer.start(run, corpus_of(run), Host(CPU, {"fp32": 1e9}))


@pytest.mark.usefixtures("counted_flops", "counted_memory")
@pytest.mark.parametrize("run", SHAPES, indirect=True, scope="module")
def test_the_predicted_peak_is_the_measured_one(run, trainer):
    meter = MemoryMeter(CPU)
    for number in range(1, TENSORS_AT + 1):
        with meter.watching(number, trainer.held):
            trainer.updates.update(trainer.micro_batches(number - 1), trainer.rate(number - 1))
    flops, peak = update_figures(step_of(run), run.piece, run.accumulation, run.plan)
    assert peak == pytest.approx(meter.tensors, rel=0.05)
    assert flops.predicted == flops.measured


@pytest.mark.parametrize("run", [*SHAPES, "masked_patches"], indirect=True, scope="module")
def test_made_up_examples_have_the_tensors_of_real_ones(run, trainer):
    objective, data = run.objective, run.data
    (real,) = trainer.micro_batches(0).pieces
    made = objective.made_up(run.architecture, data, run.piece)
    assert made.tokens.shape == real.tokens.shape
    # Numbers of each row or sample, which only metrics or the final division read, are too small to count.
    for one, other in zip(made.tensors(), real.tensors(), strict=True):
        if other is not None and other.dim() > 1:
            assert one is not None
            assert (one.shape, one.dtype) == (other.shape, other.dtype)


@pytest.mark.parametrize("run", ["dpo", "replaced_tokens"], indirect=True, scope="module")
def test_a_run_is_refused_by_the_figure_of_its_summary(run):
    step, (_, peak) = step_of(run), update_figures(step_of(run), run.piece, run.accumulation, run.plan)
    asked = {"batch": run.batch, "length": run.length, "plan": run.plan}
    need = peak + run.piece.batch * (run.length + 1) * TOKEN_BYTES
    assert list(memory_warnings(step, **asked, free=need))
    with pytest.raises(NotEnoughMemoryError):
        list(memory_warnings(step, **asked, free=need - 1))
