"""Every kind of model learns a task that only it can do, and is sampled where it generates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from learning import BOTH, FEED, GREEDY, INIT, NORM, SELF, N, V, cross_entropy, fit

from anyformer.generation import continuations
from anyformer.model import decoder_only, encoder_decoder, encoder_only
from anyformer.model.transformer import build
from anyformer.parts import (
    Causal,
    CrossAttention,
    Embedding,
    Head,
    LearnedPosition,
    Prefix,
    pre_norm,
    stack,
)


def words(generator, rows: int = 64) -> torch.Tensor:
    return torch.randint(2, V, (rows, N), generator=generator)


def share_right(model, prompts, answers, **more) -> float:
    columns = torch.stack(list(continuations(model, prompts, sampling=GREEDY, max_tokens=answers.shape[1], **more)), 1)
    return float((columns == answers).all(1).double().mean())


def test_a_decoder_learns_to_repeat():
    model = build(decoder_only(Embedding(vocab=V), 48, [pre_norm(NORM, SELF, FEED)] * 2, final_norm=NORM, initialisation=INIT))

    def loss(generator):
        x = words(generator)
        line = torch.cat([x, torch.ones(len(x), 1, dtype=torch.long), x], 1)
        return cross_entropy(model(line[:, :-1])[:, N:], line[:, N + 1 :])

    fit(model, loss, 250)
    x = words(torch.Generator().manual_seed(10_000))
    assert share_right(model, [[*row, 1] for row in x.tolist()], x) > 0.9


def test_a_prefix_model_learns_to_reverse_what_it_reads_both_ways():
    block = pre_norm(NORM, SELF.but(mask=Causal() | Prefix()), FEED)
    model = build(decoder_only(Embedding(vocab=V), 48, [block] * 2, final_norm=NORM, initialisation=INIT))

    def loss(generator):
        x = words(generator)
        line = torch.cat([x, torch.ones(len(x), 1, dtype=torch.long), x.flip(1)], 1)
        logits = model(line[:, :-1], prefix=torch.full((len(x),), N + 1))
        return cross_entropy(logits[:, N:], line[:, N + 1 :])

    fit(model, loss, 300)
    x = words(torch.Generator().manual_seed(10_000))
    assert share_right(model, [[*row, 1] for row in x.tolist()], x.flip(1)) > 0.9


def test_an_encoder_learns_to_fill_a_gap_from_both_sides():
    architecture = encoder_only(
        Embedding(vocab=V),
        48,
        [pre_norm(NORM, BOTH.but(rotary=None), FEED)] * 2,
        position=LearnedPosition(length=8),
        final_norm=NORM,
        head=Head(tied=True),
        initialisation=INIT,
    )
    model = build(architecture)

    def gap(generator):
        """a, b, mask, b - a: the gap is their sum mod 10, so both sides are needed."""
        a, c = (torch.randint(0, 10, (128,), generator=generator) for _ in range(2))
        return torch.stack([a + 2, torch.ones_like(a), c + 2], 1), (a + c) % 10 + 2

    def loss(generator):
        tokens, missing = gap(generator)
        return F.cross_entropy(model(tokens)[:, 1], missing)

    fit(model, loss, 400)
    tokens, missing = gap(torch.Generator().manual_seed(10_000))
    assert float((model(tokens)[:, 1].argmax(-1) == missing).double().mean()) > 0.9


def test_an_encoder_decoder_learns_to_reverse():
    architecture = encoder_decoder(
        Embedding(vocab=V),
        48,
        stack([pre_norm(NORM, BOTH, FEED)], final_norm=NORM, position=LearnedPosition(length=8)),
        stack([pre_norm(NORM, SELF, CrossAttention(heads=4), FEED)], final_norm=NORM, position=LearnedPosition(length=8)),
        initialisation=INIT,
    )
    model = build(architecture)

    def loss(generator):
        x = words(generator)
        target = torch.cat([torch.ones(len(x), 1, dtype=torch.long), x.flip(1)], 1)
        return cross_entropy(model(x, target[:, :-1]), target[:, 1:])

    fit(model, loss, 300)
    x = words(torch.Generator().manual_seed(10_000))
    assert share_right(model, x.tolist(), x.flip(1), start=1) > 0.9
