"""Two towers that are compared: against plain loops, priced, built, trained, refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anyformer.describe import DescriptionError, InputError, change_all, from_toml, to_toml
from anyformer.model import TwoTowers, decoder_only, encoder_only
from anyformer.operations import Shape
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    Initialisation,
    LayerNorm,
    LearnedPosition,
    Normal,
    Patches,
    pre_norm,
)
from anyformer.plan import Plan

END, B, T, SIDE = 3, 4, 6, 8


def block(mask=None):
    attention = Attention(heads=2) if mask is None else Attention(heads=2, mask=mask)
    return pre_norm(LayerNorm(), attention, FeedForward(width=20))


TEXT = decoder_only(
    Embedding(vocab=11), 16, [block()], position=LearnedPosition(length=T), head=Head(outputs=10, pool="last"),
    initialisation=Initialisation(embedding=Normal(std=0.5)),
)  # fmt: skip
IMAGE = encoder_only(
    Patches(size=4, class_tokens=1), 12, [block(Bidirectional())], position=LearnedPosition(length=5),
    head=Head(outputs=10, pool="first"), initialisation=Initialisation(embedding=Normal(std=0.1)),
)  # fmt: skip
CHOICE = TwoTowers(text=TEXT, image=IMAGE, end=END)
PAIRS = TwoTowers(text=TEXT, image=IMAGE, log_scale=math.log(10), bias=-10.0)
BOTH = pytest.mark.parametrize("towers", [CHOICE, PAIRS], ids=["choice", "pairs"])


def batch(rows: int = B):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(4, 11, (rows, T), generator=generator), torch.randn(rows, 3, SIDE, SIDE, generator=generator)


def naive_loss(similar, bias):
    """From the papers' pseudocode, entry by entry."""
    n = len(similar)
    if bias is None:
        rows = sum(torch.log(sum(torch.exp(similar[i, j]) for j in range(n))) - similar[i, i] for i in range(n))
        columns = sum(torch.log(sum(torch.exp(similar[i, j]) for i in range(n))) - similar[j, j] for j in range(n))
        return (rows / n + columns / n) / 2
    pairs = (torch.log(1 + torch.exp(-similar[i, j] if i == j else similar[i, j])) for i in range(n) for j in range(n))
    return sum(pairs) / n


@BOTH
def test_plain_loops_agree_in_similarities_losses_and_gradients(towers):
    model, (tokens, images) = towers.build(), batch()
    similar = model(tokens, images)
    a, b = model.log_scale, 0.0 if towers.bias is None else model.bias
    texts, seen = model.text(tokens), model.image(images)
    expected = torch.stack([
        torch.stack([a.exp()[0] * (t @ v) / (t.square().sum().sqrt() * v.square().sum().sqrt()) for v in seen]) for t in texts
    ]) + b  # fmt: skip
    torch.testing.assert_close(similar, expected)
    loss, other = model.loss(similar), naive_loss(expected, towers.bias)
    torch.testing.assert_close(loss, other)
    weights = list(model.parameters())
    for ours, theirs in zip(torch.autograd.grad(loss, weights), torch.autograd.grad(other, weights), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@BOTH
def test_what_is_declared_is_what_is_built_and_computed(towers):
    model, (tokens, images) = towers.build(Plan(attention="plain")), batch()
    cost = towers.cost(Shape(batch=B, length=T), Shape(batch=3, length=5))
    assert {name: tuple(x.shape) for name, x in model.named_parameters()} == {n: w.shape for n, w in cost.weights.items()}
    assert not cost.states
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(tokens, images[:3])
    assert counter.get_total_flops() == cost.total_flops.dense
    compared = cost.flops["similarities"].dense
    assert compared == 2 * B * 3 * 10


def test_towers_begin_by_their_own_rules_and_the_seed():
    model, again, other = PAIRS.build(), PAIRS.build(), PAIRS.build(seed=1)
    assert all(torch.equal(x, y) for x, y in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.text.embedding.weight, other.text.embedding.weight)
    assert float(model.text.embedding.weight.detach().std()) == pytest.approx(0.5, rel=0.2)
    assert float(model.image.encoder.position.weight.detach().std()) == pytest.approx(0.1, rel=0.4)
    assert float(model.log_scale.detach()) == pytest.approx(math.log(10))
    assert float(model.bias.detach()) == -10
    assert all(x.is_meta for x in PAIRS.build(device="meta").parameters())


def test_a_text_is_over_behind_its_first_end():
    model, (tokens, images) = CHOICE.build(), batch(2)
    tokens[0, 2] = END
    changed = tokens.clone()
    changed[0, 3:] = torch.tensor([END, 9, END])
    similar = model(tokens, images)
    torch.testing.assert_close(model(changed, images), similar)
    torch.testing.assert_close(model(tokens[:1, :3], images), similar[:1])
    changed[1, -1] = (changed[1, -1] - 3) % 7 + 4  # without an end, all is read
    assert not torch.allclose(model(changed, images)[1], similar[1])
    padding = torch.zeros(2, T, dtype=torch.bool)
    padding[1, 4:] = True
    torch.testing.assert_close(model(tokens, images, padding=padding)[1:], model(tokens[1:, :4], images))


@BOTH
def test_pairs_are_learnt(towers):
    model, (tokens, images) = towers.build(), batch()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens[:, -1] = torch.arange(B) + 4
    first = model.loss(model(tokens, images)).item()
    for _ in range(60):
        optimiser.zero_grad()
        model.loss(model(tokens, images)).backward()
        optimiser.step()
    similar = model(tokens, images)
    assert model.loss(similar).item() < first / 3
    assert similar.argmax(1).tolist() == similar.argmax(0).tolist() == list(range(B))


def test_round_trip_through_toml():
    assert from_toml(TwoTowers, to_toml(PAIRS)) == PAIRS
    assert from_toml(TwoTowers, to_toml(CHOICE)) == CHOICE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"text.head.pool": None}, "text: should give one vector"),
        ({"image.head": None}, "image: should give one vector"),
        ({"image.head.outputs": 9}, "text gives 10 features and image 9"),
        ({"end": 11}, "end = 11 is no token of text, which has 11"),
        ({"image": TEXT}, "image: reads .*, not images"),
        ({"text": IMAGE}, "text: reads .*, not tokens"),
    ],
)
def test_towers_that_cannot_be_compared_are_refused(changes, said):
    with pytest.raises(DescriptionError, match=said):
        change_all(CHOICE, changes)


def test_a_loss_needs_as_many_texts_as_images():
    model, (tokens, images) = CHOICE.build(), batch()
    with pytest.raises(InputError, match="4 texts with 3 images"):
        model.loss(model(tokens, images[:3]))
