"""The loss of later tokens against loops over positions, and training of the modules."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue.llama import llama
from anyformer.data import IGNORED
from anyformer.model.loss import token_losses
from anyformer.model.transformer import build
from anyformer.objectives import CausalObjective, Examples, default_objective, loss_of
from anyformer.objectives.multi_token import MultiTokenObjective, later_losses, later_targets
from anyformer.parts import ParallelPrediction, RMSNorm, SequentialPrediction
from anyformer.parts.call.reports import Auxiliary

LLAMA = llama(width=16, depth=2, heads=4, kv_heads=2, ffn=24, vocab=19)
KINDS = {"modules": SequentialPrediction(depth=2, norm=RMSNorm()), "heads": ParallelPrediction(depth=2)}


def test_targets_are_further_on_in_the_same_document():
    targets = torch.tensor([[11, 12, IGNORED, 21, 22, 23]])
    documents = torch.tensor([[0, 0, 0, 1, 1, 1]])
    assert later_targets(targets, None, 1).tolist() == [[12, IGNORED, 21, 22, 23]]
    assert later_targets(targets, documents, 1).tolist() == [[12, IGNORED, IGNORED, 22, 23]]
    assert later_targets(targets, documents, 2).tolist() == [[IGNORED, IGNORED, IGNORED, 23]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_loops(kind, packed):
    """Targets are the rows shifted by hand: x_{i+1+k} in its document, of a text with one token more."""
    model = build(LLAMA.but(mtp=KINDS[kind]), dtype=torch.float64).eval().requires_grad_(False)
    text = torch.randint(0, 19, (2, 9), generator=torch.Generator().manual_seed(1))
    numbers = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [0] * 9]) if packed else torch.zeros(2, 9, dtype=torch.int64)
    targets = torch.where(numbers[:, 1:] == numbers[:, :-1], text[:, 1:], IGNORED)
    documents = numbers[:, :-1] if packed else None
    _, *later = model.predictions(text[:, :-1], documents=documents)
    losses = later_losses(later, targets, documents)
    for k, (loss, logits) in enumerate(zip(losses, later, strict=True), 1):
        expected = 0.0
        for row in range(2):
            for i in range(8 - k):
                if numbers[row, i] == numbers[row, i + k + 1]:
                    expected -= float(logits[row, i].log_softmax(-1)[text[row, i + k + 1]])
        assert float(loss) == pytest.approx(expected, rel=1e-6)
    whole = Examples(text[:, :-1], targets, documents, torch.arange(2))
    first = float(token_losses(model(text[:, :-1], documents=documents), targets)[0].sum())
    for objective, factor in ((MultiTokenObjective(), 0.15), (MultiTokenObjective(factor=1.0, mean=False), 1.0)):
        objective.check(model.architecture)
        assert float(loss_of(objective, model, whole, None)) == pytest.approx(
            first + factor * sum(map(float, losses)), rel=1e-6
        )
    totals = MultiTokenObjective().statistics(model, whole, Auxiliary(), {})
    assert float(totals["loss"]) == pytest.approx(first, rel=1e-6)
    mean = MultiTokenObjective().metrics(totals, {})["loss_later_2"]
    assert mean == pytest.approx(float(losses[1] / (later_targets(targets, documents, 2) != IGNORED).sum()), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_what_comes_later(kind):
    """On a text that counts up in threes every later token can be told, within sixty updates, and the loss is one graph."""
    model = build(LLAMA.but(mtp=KINDS[kind]), seed=2)
    objective = MultiTokenObjective(factor=1.0, mean=False)
    text = (torch.arange(13)[None] * 3 + torch.arange(4)[:, None]) % 19
    tokens, targets = text[:, :-1], text[:, 1:]

    def loss(tokens, targets):
        examples = Examples(tokens, targets, None, torch.arange(4))
        return loss_of(objective, model, examples, None)

    before = loss(tokens, targets)
    torch.testing.assert_close(torch.compile(loss, fullgraph=True, backend="eager")(tokens, targets), before)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        loss(tokens, targets).backward()
        optimiser.step()
        _, *later = model.predictions(tokens)
        told = [float(one.detach()) / (4 * (12 - k)) for k, one in enumerate(later_losses(later, targets, None), 1)]
        if max(told) < 0.2:
            break
    assert max(told) < 0.2, f"they start at {float(before.detach()):.2f} in all, and end at {told}"


def test_each_architecture_has_the_objective_that_trains_all_of_it():
    later = LLAMA.but(mtp=KINDS["modules"])
    assert default_objective(later) == MultiTokenObjective()
    assert default_objective(LLAMA) == CausalObjective()
    with pytest.raises(ValueError, match=r"train it with objective\.kind = 'multi_token', or leave them out"):
        CausalObjective().check(later)
    with pytest.raises(ValueError, match="this architecture has none: set mtp = "):
        MultiTokenObjective().check(LLAMA)
