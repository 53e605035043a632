"""The loss of later tokens against loops over positions, and training of the modules."""

from __future__ import annotations

import pytest
import torch

from anyformer.catalogue.llama import llama
from anyformer.data import IGNORED
from anyformer.model import build
from anyformer.model.loss import token_losses
from anyformer.objectives.ahead import later_losses, later_targets, weighed
from anyformer.parts import ParallelPrediction, RMSNorm, SequentialPrediction

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
    assert float(weighed(losses, 0.3)) == pytest.approx(0.15 * sum(map(float, losses)))


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_what_comes_later(kind):
    """On a text that counts up in threes every later token can be told, and the loss is one graph."""
    model = build(LLAMA.but(mtp=KINDS[kind]), seed=2)
    text = (torch.arange(13)[None] * 3 + torch.arange(4)[:, None]) % 19
    tokens, targets = text[:, :-1], text[:, 1:]

    def loss(tokens, targets):
        first, *later = model.predictions(tokens)
        return token_losses(first, targets)[0].sum() + weighed(later_losses(later, targets, None), len(later))

    before = loss(tokens, targets)
    torch.testing.assert_close(torch.compile(loss, fullgraph=True, backend="aot_eager")(tokens, targets), before)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        loss(tokens, targets).backward()
        optimiser.step()
    _, *later = model.predictions(tokens)
    for k, one in enumerate(later_losses(later, targets, None), 1):
        assert float(one.detach()) / (4 * (12 - k)) < 0.2, f"prediction {k} starts at {float(before.detach()):.2f} in all"
