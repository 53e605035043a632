"""Training a mixture of experts: penalties, corrections and load through the normal loop, eager and compiled."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.cli.ending import finish
from anyformer.describe import change_all
from anyformer.model import decoder_only
from anyformer.objectives import CausalObjective
from anyformer.parts import (
    Attention,
    Capacity,
    Embedding,
    Experts,
    LearnedPosition,
    Renormalise,
    RMSNorm,
    Rotary,
    Router,
    Sampled,
    ScoreCorrectionBias,
    SparseMixer,
    TopK,
    pre_norm,
)
from anyformer.training import resume, train
from anyformer.training.journal import read_metrics
from anyformer.training.step import Updates

QUIET = Console(quiet=True)
PATH = "decoder.layers.{}.experts.sublayer"


def model_with(layers=2, **fields):
    experts = Experts(**{"experts": 4, "chosen": 2, "width": 24, "router": ROUTER} | fields)
    block = pre_norm(RMSNorm(), Attention(heads=4, place=Rotary()), experts)
    return decoder_only(Embedding(vocab=257), 32, [block] * layers, final_norm=RMSNorm())


ROUTER = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias(rate=0.01)), renormalise=Renormalise())
MIXER = Router(norm=RMSNorm(), softcap=5.0, expert_scale=True, choice=SparseMixer(margin=0.9))
PENALISED = CausalObjective(balance_loss=0.01, sequence_balance_loss=0.01, router_z_loss=0.001)


@pytest.fixture
def mixed(tiny):
    return tiny.but(architecture=model_with(), objective=PENALISED)


def train_rows(directory, kind="train"):
    return [row for row in read_metrics(directory) if row["kind"] == kind]


def weights(trained):
    return {name: parameter.detach().clone() for name, parameter in trained.model.named_parameters()}


def test_it_learns_balances_and_logs_the_load(mixed, tmp_path):
    run = change_all(mixed, {"steps": 40, "evaluation.every": 20, "checkpoints.every": 20})
    trained = train(run, tmp_path / "run", console=QUIET)
    losses = [row["loss"] for row in train_rows(tmp_path / "run")]
    assert losses[-1] < losses[0] - 1
    looked = train_rows(tmp_path / "run", "validation")[-1]
    assert list(looked["experts"]) == [PATH.format(0), PATH.format(1)]
    for load in looked["experts"].values():
        assert sum(load["shares"]) == pytest.approx(1, abs=1e-3)
        assert load["dropped"] == 0
    first = train_rows(tmp_path / "run")[0]["experts"]
    assert all(0.25 <= load["largest"] < 0.5 and load["dropped"] == 0 for load in first.values())
    for layer in range(2):
        correction = weights(trained)[f"{PATH.format(layer)}.router.correction"]
        steps = correction / 0.01
        torch.testing.assert_close(steps, steps.round(), rtol=0, atol=1e-3, msg="only whole steps of the rule")
        assert 0 < steps.abs().max() <= 40


def test_the_optimiser_leaves_corrections_alone(mixed, tmp_path):
    still = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias(rate=0.0)))
    trained = train(mixed.but(architecture=model_with(router=still)), tmp_path / "run", console=QUIET)
    for name, parameter in trained.model.named_parameters():
        assert name.endswith("correction") != parameter.requires_grad
        assert name.endswith("correction") == (not parameter.any()), name
    found, _ = checkpoint.latest(tmp_path / "run")
    loaded, _, _ = checkpoint.load(found)
    assert {n: p.requires_grad for n, p in loaded.named_parameters()} == {
        n: p.requires_grad for n, p in trained.model.named_parameters()
    }


def test_resuming_a_mixture_gives_the_same_weights(mixed, tmp_path, monkeypatch):
    whole = train(mixed, tmp_path / "whole", console=QUIET)
    real, calls = Updates.update, []

    def failing(*given, **more):
        calls.append(1)
        if len(calls) == 6:
            raise RuntimeError("pulled the plug")
        return real(*given, **more)

    monkeypatch.setattr(Updates, "update", failing)
    with pytest.raises(RuntimeError):
        train(mixed, tmp_path / "cut", console=QUIET)
    monkeypatch.setattr(Updates, "update", real)
    again = weights(resume(tmp_path / "cut", console=QUIET))
    assert all(torch.equal(value, again[name]) for name, value in weights(whole).items())


def test_a_run_whose_model_cannot_generate_ends_with_the_reason(tiny, tmp_path, capsys):
    stack = model_with().decoder.but(position=LearnedPosition(length=32))
    run = tiny.but(architecture=model_with().but(decoder=stack), steps=1, sample="value = 1\n" * 3)
    trained = train(run, tmp_path / "run", console=QUIET)
    capsys.readouterr()
    finish(trained)
    said = " ".join(capsys.readouterr().out.split())
    assert "no sample: " in said
    assert "position table ends at 32" in said
    assert "anyformer show" in said
    assert "anyformer generate" not in said


def test_a_run_ends_with_a_sample(mixed, tmp_path, capsys):
    trained = train(mixed.but(steps=1, sample="def f"), tmp_path / "run", console=QUIET)
    finish(trained)
    said = capsys.readouterr().out
    assert "sample\ndef f" in said
    assert "anyformer generate" in said


def test_accumulation_counts_the_whole_step(mixed, tmp_path):
    """The choices of all micro-batches move the correction once."""
    run = mixed.but(objective=CausalObjective(), steps=3)
    one, two = (train(run.but(accumulation=n), tmp_path / str(n), console=QUIET) for n in (1, 2))
    for name, value in weights(one).items():
        torch.testing.assert_close(value, weights(two)[name], rtol=1e-3, atol=1e-4)


COMPILED = {
    "dropless": {"bias": ("gate", "up", "down"), "width": 21, "router": Router(choice=Sampled(), jitter=0.1)},
    "capacity": {"capacity": Capacity(overflow="reroute", when="always")},
    "identity": {"identity_experts": 3, "bias": ("up",), "norm": RMSNorm(), "router": MIXER, "clamp": 2.0, "up_offset": 1.0},
}


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fields", COMPILED.values(), ids=COMPILED)
def test_compiled_training_equals_eager(tiny, tmp_path, monkeypatch, fields, backend):
    """What a graph holds, forward and backward, is decided before code is generated, so that the fast form generates none."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    run = tiny.but(architecture=model_with(layers=1, **fields), objective=PENALISED, steps=3)
    eager = train(run, tmp_path / "eager", console=QUIET)
    compiled = train(run.but(plan=run.plan.but(compile="on")), tmp_path / "compiled", console=QUIET)
    losses = [[row["loss"] for row in train_rows(tmp_path / name)] for name in ("eager", "compiled")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert eager.validation.loss == pytest.approx(compiled.validation.loss, rel=1e-4)
