"""Contracts of predictions of the tokens after the next one."""

from __future__ import annotations

import torch

from anyformer.model import Architecture
from anyformer.model.transformer import build
from anyformer.testing.comparisons import equal
from anyformer.testing.inputs import tokens
from anyformer.testing.models import looked_at
from anyformer.testing.rows import DOCUMENTS
from anyformer.testing.traits import limits

CHANGED = 6
"""The first token that is changed."""


def first_prediction_is_the_forward_pass(architecture: Architecture) -> None:
    """The first of the predictions is what the model gives, and there is one more for each later token, of T - k positions."""
    model, x = looked_at(architecture), tokens(architecture)
    first, *later = model.predictions(x)
    assert torch.equal(first, model(x))
    assert architecture.mtp is not None
    assert len(later) == architecture.mtp.depth
    for k, logits in enumerate(later, 1):
        assert logits.shape == (len(x), x.shape[1] - k, architecture.outputs), f"prediction {k} has shape {tuple(logits.shape)}"


def no_prediction_sees_its_token(architecture: Architecture) -> None:
    """Prediction k at position i does not change with the token i + k + 1, which it is to predict, or with later ones."""
    model, x = looked_at(architecture), tokens(architecture)
    y = x.clone()
    y[:, CHANGED:] = (y[:, CHANGED:] + 1) % (architecture.embedding.symbols or 1)
    _, *before = model.predictions(x)
    _, *after = model.predictions(y)
    for k, (one, other) in enumerate(zip(before, after, strict=True), 1):
        first = CHANGED - k
        equal(one[:, :first], other[:, :first], f"prediction {k} of positions that are given no changed token")
        moved = (one[:, CHANGED:] - other[:, CHANGED:]).abs().amax(-1).min()
        assert moved > 1e-4, f"prediction {k} does not depend on the tokens before"


def packed_predictions_equal_each_alone(architecture: Architecture) -> None:
    """Where a document holds the token to go on with, its predictions are those of the document alone."""
    if limits(architecture, "packed"):
        return  # the first prediction is the forward pass, which is refused
    model, x = looked_at(architecture), tokens(architecture)
    documents = torch.tensor([[number for number, length in enumerate(row) for _ in range(length)] for row in DOCUMENTS])
    assert architecture.mtp is not None
    _, *packed = model.predictions(x, documents=documents)
    for row, lengths in enumerate(DOCUMENTS):
        start = 0
        for length in lengths:
            if length > architecture.mtp.depth:
                _, *alone = model.predictions(x[row : row + 1, start : start + length])
                for k, logits in enumerate(alone, 1):
                    own = packed[k - 1][row, start : start + length - k]
                    equal(own, logits[0], f"prediction {k} of a document of {length} tokens")
            start += length


def predictions_in_bf16_stay_near_fp32(architecture: Architecture) -> None:
    """As for the model itself, with two layers more: within 10 % of fp32."""
    model, x = build(architecture).eval(), tokens(architecture)
    with torch.no_grad():
        _, *exact = model.predictions(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            _, *rough = model.predictions(x)
    for k, (one, other) in enumerate(zip(exact, rough, strict=True), 1):
        error = float((other.float() - one).norm() / one.norm())
        assert error < 0.1, f"prediction {k} is off by {error:.1%}"
