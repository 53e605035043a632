"""The forgetting gate: open it is plain attention, closed a token sees itself alone, constant it is ALiBi."""

from __future__ import annotations

import math

import pytest
import torch

from anyformer.describe import DescriptionError
from anyformer.model import decoder_only
from anyformer.model.transformer import Transformer, build
from anyformer.operations import Shape
from anyformer.parts import (
    ALiBi,
    Attention,
    Bidirectional,
    Causal,
    Embedding,
    FeedForward,
    ForgettingGate,
    Prefix,
    RMSNorm,
    Score,
    Window,
    pre_norm,
)
from anyformer.plan import Plan
from anyformer.testing.around import LOUD

B, T, D, V = 2, 10, 24, 37
X = torch.randint(0, V, (B, T), generator=torch.Generator().manual_seed(0))
FORGETS = Attention(heads=4, kv_heads=2, score=Score(terms=ForgettingGate()))


def made(attention: Attention, *others: Attention) -> Transformer:
    layers = [pre_norm(RMSNorm(), each, FeedForward(width=20)) for each in (attention, *others)]
    return build(decoder_only(Embedding(vocab=V), D, layers, initialisation=LOUD)).eval()


def constant(attention: Attention, *logits: float) -> Transformer:
    """The model with gates sigmoid(logit) of each head, whatever it reads."""
    model = made(attention)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".forget.gates." in name:
                weight.copy_(torch.tensor(logits) if name.endswith("bias") else torch.zeros_like(weight))
    return model


def like(model: Transformer, attention: Attention) -> Transformer:
    """Another attention with the same weights, but for gates."""
    plain = made(attention)
    plain.load_state_dict({name: each for name, each in model.state_dict().items() if ".forget." not in name})
    return plain


@torch.no_grad()
@pytest.mark.parametrize("mask", [Causal(), Bidirectional(), Causal() | Prefix()])
def test_open_gates_are_plain_attention(mask):
    gated = constant(FORGETS.but(mask=mask), *[60.0] * 4)
    torch.testing.assert_close(gated(X), like(gated, FORGETS.but(mask=mask, forget=None))(X))


@torch.no_grad()
def test_closed_gates_leave_each_token_to_itself():
    gated = constant(FORGETS, *[-60.0] * 4)
    torch.testing.assert_close(gated(X), like(gated, FORGETS.but(mask=Window(size=1), forget=None))(X))


@torch.no_grad()
@pytest.mark.parametrize("mask", [Causal(), Bidirectional()])
def test_constant_gates_are_alibi(mask):
    logits = [-math.log(math.expm1(slope)) for slope in ALiBi().of_heads(4)]
    gated = constant(FORGETS.but(mask=mask), *logits)
    other = like(gated, FORGETS.but(mask=mask, forget=None, score_bias=ALiBi()))
    torch.testing.assert_close(gated(X), other(X), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_trimmed_positions_are_forgotten():
    model = made(FORGETS, FORGETS)
    state = model.state(B, T)
    model(X[:, :5], state=state)
    model(X[:, 5:9].flip(1), state=state)
    state.trim(4)
    torch.testing.assert_close(model(X[:, 5:], state=state), model(X)[:, 5:], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_row_begins_anew_in_a_used_state():
    """What a running sum begins with is no matter."""
    model = made(FORGETS, FORGETS)
    state, fresh = model.state(B, T), model.state(1, T)
    model(X[:, :6], state=state)
    model(X[1:, 2:6].flip(1), state=fresh)
    state.put(torch.tensor([0]), fresh)
    rows = torch.cat([X[1:, 2:6].flip(1), X[:1, 6:]], 1)
    torch.testing.assert_close(model(X[:, 6:], state=state)[:1], model(rows)[:, 4:], rtol=1e-4, atol=1e-5)


def test_sums_are_held_in_fp32():
    state = FORGETS.state(D, B, 7, 0, torch.bfloat16, torch.device("cpu"))
    assert state.nbytes == B * 7 * (2 * 2 * 6 * 2 + 4 * 4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"mask": Window(size=4)}, "a window keeps its latest 4 alone: leave forget out"),
        ({"keys_from": "own"}, "no keys and values of its own: leave forget out"),
    ],
)
def test_what_it_cannot_stand_beside_is_refused(fields, reason):
    with pytest.raises(DescriptionError, match=reason):
        FORGETS.but(**fields)


def test_gates_of_heads_are_cut_with_them():
    half = FORGETS.narrowed(D, 2)
    weights = half.cost(D, Shape(batch=1, length=2), Plan()).weights
    assert [weights[f"forget.gates.{name}"].shape for name in ("weight", "bias")] == [(2, D), (2,)]
