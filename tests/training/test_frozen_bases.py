"""Frozen weights in 16, 8 and 4 bits under an adapter: trained, resumed bit for bit, merged, and as large as priced."""

from __future__ import annotations

import shutil
from typing import get_args

import pytest
import torch
from rich.console import Console

import anyformer as af
from anyformer import checkpoint
from anyformer.costs.fine_tuning import FineTuning, Method
from anyformer.data import Bytes, Text
from anyformer.plan import Plan
from anyformer.quantising import FORMATS
from anyformer.quantising.model import dense, quantised
from anyformer.quantising.tensor import Quantised, stored_bytes
from anyformer.training import Checkpoints, Evaluation, Run, resume, train
from anyformer.training.adapting import rest, tune
from anyformer.training.run import on_stored_base
from anyformer.training.starting import base_of, completed
from anyformer.tuning import AdamW, Dora, Lora, Tuning
from anyformer.tuning.value import Base

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Four updates of a tiny Llama over bytes, from a model that was there."""
    place = tmp_path_factory.mktemp("frozen")
    (place / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 200)
    base = af.architecture("llama-3-8b", tiny=True, changes={"embedding.vocab": 257})
    checkpoint.save(af.build(base, seed=5), place / "base", facts={})
    return Run(
        steps=4, batch=2, length=16, data=Text(paths=(str(place / "text.txt"),), tokenizer=Bytes(), validation=0.2),
        plan=Plan(precision="fp32", compile="off"), evaluation=Evaluation(every=4, batches=1, baseline=False),
        checkpoints=Checkpoints(every=2), architecture=base, optimiser=AdamW(), start_from=str(place / "base"),
        tuning=Tuning(adapter=Lora(rank=2), base="nf4"),
    )  # fmt: skip


@pytest.mark.parametrize("base", get_args(Base))
def test_bytes_are_those_of_the_price(base):
    tuning = Tuning(adapter=Lora(rank=3), base=base)
    architecture = af.architecture("mixtral-8x7b", tiny=True)
    model = af.build(architecture, seed=1)
    tune(model, tuning, 0)
    rest(model, tuning)
    priced = FineTuning(architecture, Method("this run", tuning, AdamW()), 8, Plan(precision="fp32"))
    assert sum(map(stored_bytes, model.parameters())) == priced.weights


@pytest.mark.parametrize("adapter", [Lora(rank=2), Dora(rank=2)], ids=lambda adapter: adapter.kind)
@pytest.mark.parametrize("base", ["bf16", "int8", "nf4"])
def test_it_computes_and_learns_what_the_restored_model_does(base, adapter):
    tuning, tokens = Tuning(adapter=adapter, base=base), torch.arange(18).view(2, 9)
    architecture = af.architecture("llama-3-8b", tiny=True)
    held, plain = af.build(architecture, seed=1), af.build(architecture, seed=1)
    tune(held, tuning, 0)
    rest(held, tuning)
    with torch.no_grad():
        values = dict(held.named_parameters())
        for name, parameter in plain.named_parameters():
            parameter.copy_(values[name].restored)
    tune(plain, tuning, 0)
    gradients = []
    for model in (held, plain):
        for name, parameter in model.named_parameters():
            if name in model.added:
                parameter.data.copy_(values[name].detach())
        (model(tokens) ** 2).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys() == held.added.keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-4, atol=1e-6)


def test_it_trains_resumes_bit_for_bit_and_is_merged(run, tmp_path):
    whole = train(run, tmp_path / "whole", console=QUIET)
    train(run.but(steps=4, tuning=run.tuning), tmp_path / "cut", console=QUIET)
    last = checkpoint.directory_of(tmp_path / "cut", 4)
    shutil.rmtree(last)
    resumed = resume(tmp_path / "cut", console=QUIET)
    ours, theirs = (
        checkpoint.read(checkpoint.directory_of(tmp_path / name, 4) / "adapter.safetensors") for name in ("whole", "cut")
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert any(x.any() for name, x in ours.items() if name.endswith("up"))
    assert whole.validation is not None
    assert resumed.validation is not None
    assert whole.validation.loss == resumed.validation.loss
    merged, _ = af.load(tmp_path / "whole")
    tokens = torch.arange(12).view(2, 6)
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens), dense(merged)(tokens))
    assert {parameter.dtype for parameter in merged.parameters()} == {torch.float32}
    assert not any(isinstance(x, Quantised) for x in dense(merged).parameters())


@pytest.mark.parametrize("format", ["int4-64", "int8", "nf4"])
def test_a_base_in_few_bits_is_taken_to_the_bit(run, tmp_path, format):
    """Rounding it once more would give other numbers in some formats; it stays as it was through a training."""
    model, _ = af.load(run.start_from)
    few = quantised(model, FORMATS[format])[0]
    checkpoint.save(few, tmp_path / "few", facts={})
    begun = on_stored_base(run.but(start_from=str(tmp_path / "few"), tuning=Tuning(adapter=Lora(rank=2)), steps=2))
    assert begun.tuning.base == format
    train(begun, tmp_path / "run", console=QUIET)
    taken, _, _ = checkpoint.load(checkpoint.directory_of(tmp_path / "run", 2), merge=False)
    values = dict(taken.named_parameters())
    matrices = {name: value for name, value in few.named_parameters() if isinstance(value, Quantised)}
    assert matrices
    for name, value in matrices.items():
        assert all(torch.equal(values[name].planes[plane], x) for plane, x in value.planes.items()), name


def test_a_run_of_a_file_takes_the_base_as_it_is_stored(run, tmp_path):
    model, _ = af.load(run.start_from)
    checkpoint.save(quantised(model, FORMATS["nf4"])[0], tmp_path / "few", facts={})
    table = {**run.plain(), "start_from": str(tmp_path / "few"), "tuning": {"adapter": {"kind": "lora"}}}
    assert completed(table)["tuning"]["base"] == "nf4"
    assert completed({**table, "tuning": {}})["tuning"] == {}
    assert base_of(run.start_from) is None
