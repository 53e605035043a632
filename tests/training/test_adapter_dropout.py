"""Dropout of an adapter's input: its formula, its noise, its price, and a run that resumes bit for bit."""

from __future__ import annotations

from shutil import copytree, rmtree

import pytest
import torch
from rich.console import Console
from torch.nn import functional as F
from zoo import ZOO

from anyformer import checkpoint
from anyformer.describe import change_all
from anyformer.model.adapters import adapt, plain
from anyformer.model.transformer import build
from anyformer.parts.call.noise import Noise
from anyformer.plan import Plan
from anyformer.training import resume, train
from anyformer.tuning import Dora, Lora, Tuning

QUIET = Console(quiet=True)
NOISE = Noise.at(3, 5, torch.tensor([4, 9]))


def made(adapter, name="llama", plan=None):
    """A model in training with an adapter that has learnt something, and no other dropout."""
    model = build(change_all(ZOO[name], {"decoder.dropout": 0.0}), plan, seed=1).train()
    adapt(model, adapter, 0)
    with torch.no_grad():
        for path in model.added:
            if path.endswith("up"):
                model.get_parameter(path).normal_(generator=torch.Generator().manual_seed(2))
    return model


@pytest.mark.parametrize("adapter", [Lora(rank=2, dropout=0.4), Dora(rank=2, dropout=0.4)], ids=lambda each: each.kind)
def test_it_drops_the_input_of_the_low_rank_matrices_alone(adapter):
    """y = x W^T + s drop(x) A^T B^T: with W = 0 a share of the inputs counts, 1 / (1 - rate) times."""
    model = made(adapter)
    linear = next(module for module in model.modules() if hasattr(module, "adapter_down"))
    linear.dropout.noise = NOISE
    x = torch.randn(2, 50, linear.in_features, generator=torch.Generator().manual_seed(1))
    kept = linear.dropout(x) / x
    assert ((kept == 0) | torch.isclose(kept, torch.tensor(1 / 0.6))).all()
    assert float((kept > 0).float().mean()) == pytest.approx(0.6, abs=0.03)
    low = adapter.scale * F.linear(F.linear(linear.dropout(x), linear.adapter_down), linear.adapter_up)
    y = F.linear(x, linear.weight) + low
    if adapter.kind == "dora":
        whole = linear.weight + adapter.scale * linear.adapter_up @ linear.adapter_down
        y = y * linear.adapter_magnitude / whole.norm(dim=1)
    torch.testing.assert_close(linear(x), y if linear.bias is None else y + linear.bias)


@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_noise_is_of_the_row_and_no_two_matrices_share_it(checkpointing):
    """A row alone is what it is in its batch, outputs and gradients; evaluation drops nothing."""
    tokens = ZOO["llama"].embedding.example(2, 9)
    model = made(Lora(rank=2, dropout=0.4), plan=Plan(checkpointing=checkpointing)).double()
    whole = model(tokens, noise=NOISE)
    whole[1].square().sum().backward()
    path = next(iter(model.added))
    gradient = model.get_parameter(path).grad.clone()
    model.zero_grad()
    alone = model(tokens[1:], noise=Noise(NOISE.key, NOISE.rows[1:]))
    alone.square().sum().backward()
    torch.testing.assert_close(whole[1:], alone)
    torch.testing.assert_close(model.get_parameter(path).grad, gradient)
    assert not torch.allclose(model(tokens, noise=Noise.at(3, 6, NOISE.rows)), whole), "another step, other noise"
    sites = [module.dropout.site for module in model.modules() if hasattr(module, "adapter_down")]
    assert len(set(sites)) == len(sites)
    torch.testing.assert_close(model.eval()(tokens), plain(model)(tokens), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["experts_shared", "original", "delta_gated"])
def test_every_kind_of_layer_takes_it(name):
    name = name if name in ZOO else next(key for key in ZOO if key.startswith("experts"))
    architecture = ZOO[name]
    model = build(architecture).train()
    adapt(model, Lora(rank=2, dropout=0.4), 0)
    given = [architecture.embedding.example(2, 9)]
    if architecture.two_inputs:
        given.append(architecture.output_embedding.example(2, 7))
    model(*given).sum().backward()
    assert all(model.get_parameter(path).grad.isfinite().all() for path in model.added)


def test_it_compiles_to_one_graph():
    model = made(Lora(rank=2, dropout=0.4))
    tokens = ZOO["llama"].embedding.example(2, 9)
    compiled = torch.compile(lambda x, noise: model(x, noise=noise), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens, NOISE), model(tokens, noise=NOISE))


def test_a_run_resumes_to_the_same_bits(tiny, tmp_path):
    run = tiny.but(tuning=Tuning(adapter=Lora(rank=2, dropout=0.3)), checkpoints=tiny.checkpoints.but(every=4, keep=2))
    whole = train(run, tmp_path / "whole", console=QUIET)
    copytree(tmp_path / "whole", tmp_path / "parts")
    rmtree(checkpoint.directory_of(tmp_path / "parts", 8))
    parts = resume(tmp_path / "parts", console=QUIET)
    other = train(run.but(tuning=Tuning(adapter=Lora(rank=2))), tmp_path / "other", console=QUIET)
    for name, parameter in whole.model.named_parameters():
        assert torch.equal(parameter, parts.model.get_parameter(name)), name
    assert any(not torch.equal(x, other.model.get_parameter(name)) for name, x in whole.model.named_parameters())


@pytest.mark.usefixtures("counted_memory")
def test_what_training_holds_is_what_was_priced(tiny, tmp_path):
    wide = change_all(tiny, {"architecture.width": 64, "decoder.layer.feedforward.width": 128, "length": 64, "steps": 3})
    run = wide.but(tuning=Tuning(adapter=Lora(rank=2, dropout=0.3)))
    found = train(run, tmp_path / "run", console=QUIET).summary
    assert found.memory.predicted == pytest.approx(found.memory.measured, rel=0.01)
