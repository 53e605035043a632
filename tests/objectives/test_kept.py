"""Distillation from a teacher's kept answers: the divergence over k tokens and the rest, against loops and over all tokens."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from anyformer.catalogue import architecture
from anyformer.data import IGNORED
from anyformer.describe import change_all
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, DistillationObjective, Examples, loss_of, without_penalties
from anyformer.objectives.distillation import divergence
from anyformer.objectives.teacher_answers import kept_divergence
from anyformer.parts.call.reports import Auxiliary

TINY = architecture("llama-2-7b", tiny=True)
V = 12


def given(k: int, temperature: float, sharp: float = 3.0) -> tuple[torch.Tensor, torch.Tensor, Examples]:
    """Logits of a teacher and a student, and examples with the teacher's k likeliest tokens."""
    teacher, student = sharp * torch.randn(2, 3, 8, V, generator=torch.Generator().manual_seed(1))
    targets = torch.randint(0, V, (3, 8), generator=torch.Generator().manual_seed(0))
    targets[0, :3] = targets[2, 5:] = IGNORED
    weights = torch.rand(3, 8, generator=torch.Generator().manual_seed(2))
    values, tokens = torch.log_softmax(teacher / temperature, -1).topk(k)
    made = Examples(targets.clamp(min=0), targets, None, torch.arange(3), weights=weights, taught=values, taught_tokens=tokens)
    return teacher, student.requires_grad_(), made


@pytest.mark.parametrize(("k", "temperature"), [(1, 1.0), (4, 2.0), (V - 2, 2.0)])
def test_the_divergence_over_k_tokens_and_the_rest_is_that_of_loops(k, temperature):
    teacher, student, examples = given(k, temperature)
    expected = 0.0
    for row in range(3):
        for place in range(8):
            if examples.targets[row, place] == IGNORED:
                continue
            p, q = ([math.exp(x / temperature) for x in each[row, place].tolist()] for each in (teacher, student))
            p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
            best = sorted(range(V), key=lambda token: -p[token])[:k]
            pairs = [(p[token], q[token]) for token in best]
            pairs.append((1 - sum(a for a, _ in pairs), 1 - sum(b for _, b in pairs)))
            expected += float(examples.weights[row, place]) * sum(a * math.log(a / b) for a, b in pairs)
    found = float(kept_divergence(student, examples, temperature).detach())
    assert found == pytest.approx(expected, rel=1e-5)
    assert found < float(divergence(teacher, student, examples, temperature).detach())


def test_of_all_tokens_it_is_the_whole_divergence_and_its_gradient():
    teacher, student, examples = given(V, 2.0)
    losses = [divergence(teacher, student, examples, 2.0), kept_divergence(student, examples, 2.0)]
    gradients = [torch.autograd.grad(loss, student)[0] for loss in losses]
    assert float(losses[0].detach()) == pytest.approx(float(losses[1].detach()), rel=1e-6)
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-6)


def test_a_rest_of_nothing_is_harmless():
    # The teacher, and then the student too, is sure: the rest's probability is too small for fp32.
    for sharp in (1e3, 1e4):
        _, student, examples = given(2, 1.0, sharp)
        loss = kept_divergence(student, examples, 1.0)
        loss.backward()
        assert loss.isfinite()
        assert student.grad is not None
        assert student.grad.isfinite().all()
    teacher, _, examples = given(2, 1.0, 1e3)
    assert float(kept_divergence(teacher, examples, 1.0)) == pytest.approx(0, abs=1e-5)
    ruled_out = replace(examples, taught=torch.tensor([0.0, -math.inf]).expand(3, 8, 2))
    assert kept_divergence(torch.zeros(3, 8, V), ruled_out, 1.0).isfinite()
    rounded_up = replace(examples, taught=torch.full((3, 8, 2), math.log(0.5) + 1e-6))
    assert kept_divergence(torch.zeros(3, 8, V), rounded_up, 1.0).isfinite()


def test_an_evaluation_is_of_the_data_alone():
    model, (_, _, examples) = build(change_all(TINY, {"embedding.vocab": V}), seed=1).eval(), given(2, 1.0)
    own = float(loss_of(CausalObjective(), model, examples, None).detach())
    bare = replace(examples, taught=None, taught_tokens=None)
    kept = DistillationObjective(teacher="t", kept=2)
    totals = kept.statistics(model, bare, Auxiliary(), {})
    assert float(totals["loss"].detach()) == pytest.approx(own, rel=1e-6)
    assert kept.metrics(totals, {}).keys() == {"accuracy"}
    assert float(loss_of(without_penalties(kept), model, bare, None).detach()) == pytest.approx(own, rel=1e-6)


@pytest.mark.parametrize("k", [1, 4])
def test_foretold_memory_holds_the_kept_answers_of_every_position(k):
    _, _, examples = given(k, 1.0)
    answers = examples.taught.nbytes + examples.taught_tokens.nbytes
    assert DistillationObjective(teacher="t", kept=k).sizes.position_bytes == answers / examples.targets.numel()
    assert DistillationObjective(teacher="t").sizes.position_bytes == 0
