"""Compiled passes in 16 bits: torch can keep their graph on disk, and gradients are those of a graph that begins autocast."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch._dynamo.backends.debugging import aot_eager

from anyformer.describe import change_all
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, Experts, RMSNorm, Rotary, Router, pre_norm
from anyformer.training.held_out import corpus_of
from anyformer.training.passes import Passes, uncompiled
from anyformer.training.precision import Host
from anyformer.training.trainer import Trainer


def gradients(trainer: Trainer, passes: Passes) -> tuple[float, list[torch.Tensor]]:
    loss, _ = passes.add_gradients(trainer.micro_batches(0))
    found = [weight.grad.clone() for weight in trainer.model.parameters() if weight.grad is not None]
    trainer.model.zero_grad(set_to_none=True)
    return loss, found


@pytest.mark.parametrize("experts", [False, True])
def test_no_graph_begins_the_autocast_of_a_plan_and_gradients_are_computed_without_it(tiny, monkeypatch, experts):
    """Routers multiply in fp32, and so must their gradients be, for which no autocast may hold."""
    called: list[str] = []

    def backend(graph, inputs, **options):
        called.extend(getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes)
        return aot_eager(graph, inputs)

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    run = change_all(tiny, {"plan.precision": "bf16", "plan.compile": "on", "architecture.decoder.order": "layer"})
    if experts:
        block = pre_norm(RMSNorm(), Attention(heads=4, place=Rotary()), Experts(experts=4, chosen=2, width=24, router=Router()))
        run = run.but(architecture=decoder_only(Embedding(vocab=257), 32, [block], final_norm=RMSNorm()))
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"bf16": 1e9}))
    loss, found = gradients(trainer, trainer.passes)
    assert called
    assert ("_enter_autocast" in called) == experts, "a router ends it for itself alone"
    within = uncompiled(trainer.passes)
    within.summed = torch.compile(within.loss.summed, dynamic=False, fullgraph=True)
    same, wanted = gradients(trainer, within)
    assert "_enter_autocast" in called
    assert loss == same
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)
