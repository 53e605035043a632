"""Layers computed again: the same loss, gradients, statistics and noise, whatever is kept for the backward pass."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor
from zoo import ZOO

from anyformer.describe import change_all
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary, Load
from anyformer.plan import Plan
from covering import cover, covering, kinds, rest_slow

B, T, S = 2, 11, 7
ANOTHER_ORDER = {"buckets_shared"}
"""Their layers share a score bias, whose gradient is a sum over layers: taken in another order where each makes its own."""


def dropping(architecture: Architecture) -> Architecture:
    """The same with every kind of dropout that its parts have."""
    changes: dict[str, float] = {}
    for stack, part in architecture.stacks.items():
        changes[f"{stack}.dropout"] = 0.1
        for variant, block in part.variants.items():
            for name, branch in block.branches.items():
                path = f"{stack}.{variant}.{name}"
                changes |= {f"{path}.dropout": 0.2, f"{path}.drop_path": 0.3}
                if "dropout" in type(branch.sublayer).model_fields:
                    changes[f"{path}.sublayer.dropout"] = 0.1
    return change_all(architecture, changes)


def given_to(architecture: Architecture) -> list[Tensor]:
    if not architecture.two_inputs:
        return [architecture.embedding.example(B, T)]
    return [architecture.embedding.example(B, S), architecture.output_embedding.example(B, T, seed=1)]


def loss_of(model: Transformer, given: list[Tensor], noise: Noise, auxiliary: Auxiliary) -> Tensor:
    """A loss that every output and every penalty of a router is in."""
    logits = torch.cat([y.flatten() for y in model.predictions(*given, noise=noise, auxiliary=auxiliary)])
    penalties = [report.balance for report in auxiliary.reports.values() if report.balance is not None]
    return sum(penalties, logits.float().square().mean())


def trained(architecture: Architecture, how: str) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], dict[str, Load]]:
    """The loss, gradients, what else the parameters became, and the loads of experts."""
    model, auxiliary = build(architecture, Plan(checkpointing=how)).train(), Auxiliary()
    loss = loss_of(model, given_to(architecture), Noise.at(0, 1, torch.arange(B)), auxiliary)
    loads = auxiliary.loads
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, {name: p.detach() for name, p in model.named_parameters()}, {**loads, **auxiliary.loads}


WAYS = ("selective", "full")


@pytest.mark.parametrize(("name", "how"), rest_slow(product(ZOO, WAYS), covering(sorted(cover(ZOO, kinds)), WAYS, together=1)))
def test_loss_gradients_and_statistics_are_the_same(name, how):
    """Of every kind of part, by turns with some of a layer computed again and with all of it."""
    architecture = dropping(ZOO[name])
    loss, gradients, parameters, loads = trained(architecture, "none")
    again = trained(architecture, how)
    assert torch.equal(again[0], loss)
    assert again[1].keys() == gradients.keys()
    for path, gradient in gradients.items():
        tolerance = {"rtol": 1e-4, "atol": 1e-6} if name in ANOTHER_ORDER else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(again[1][path], gradient, **tolerance, msg=path)
    # Running statistics are parameters: they have moved once.
    assert all(torch.equal(again[2][path], parameter) for path, parameter in parameters.items())
    for path, load in loads.items():
        assert torch.equal(again[3][path].counts, load.counts)
        assert torch.equal(again[3][path].dropped, load.dropped)


def test_statistics_of_a_batch_do_move():
    """Else the test above could not see them move twice."""
    before = build(ZOO["batch_norm"]).train()
    *_, after, _ = trained(ZOO["batch_norm"], "full")
    moved = {path for path, p in before.named_parameters() if not p.requires_grad and not torch.equal(p, after[path])}
    assert any("running_mean" in path for path in moved)
    assert any("running_variance" in path for path in moved)


@pytest.mark.parametrize("how", ["selective", "full"])
def test_without_gradients_nothing_is_prepared_to_be_repeated(how, monkeypatch):
    """Evaluation and decoding go straight through the layers."""

    def refuse(*given: object, **more: object) -> Tensor:
        raise AssertionError("a layer was checkpointed")

    monkeypatch.setattr("anyformer.parts.layers.recompute.checkpoint", refuse)
    model = build(ZOO["llama"], Plan(checkpointing=how))
    tokens = ZOO["llama"].embedding.example(B, T)
    with torch.no_grad():
        model(tokens)
    model(tokens, state=model.state(B, T))
    with pytest.raises(AssertionError, match="checkpointed"):
        model(tokens)


@pytest.mark.parametrize("how", ["selective", pytest.param("full", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("backend", "order"),
    [
        ("aot_eager_decomp_partition", "own shared*2"),
        pytest.param("inductor", "own*2 shared*2 own shared", marks=pytest.mark.slow),
    ],
)
def test_a_compiler_gets_the_same(how, backend, order):
    """Shared keys cross layers, and running statistics must not move twice.

    What is kept and what is repeated is decided before code is generated, so that the fast form generates none; it keeps some
    products and repeats the rest, and to repeat all is the same with nothing kept.
    """
    norm, stack = ZOO["batch_norm"].decoder.final_norm, ZOO["shared_keys"].decoder
    first = stack.layers[0]
    branch = next(iter(stack.variants[first].branches))
    changes = {"decoder.order": order, f"decoder.{first}.{branch}.norm_before": norm}
    architecture = change_all(ZOO["shared_keys"], changes)
    eager, compiled = (build(architecture, Plan(checkpointing=how)).train() for _ in range(2))
    given, noise = given_to(architecture), Noise.at(0, 1, torch.arange(B))
    torch._dynamo.reset()
    losses = [
        f(m, given, noise, Auxiliary())
        for f, m in ((loss_of, eager), (torch.compile(loss_of, fullgraph=True, backend=backend), compiled))
    ]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    for (path, p), (_, q) in zip(eager.named_parameters(), compiled.named_parameters(), strict=True):
        torch.testing.assert_close(q, p, msg=path)
        assert p.grad is None or torch.allclose(p.grad, q.grad, rtol=1e-3, atol=1e-5), path
