"""Masked diffusion: rates, weights and the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from anyformer.catalogue import architecture
from anyformer.data import IGNORED, Batch, Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.model.transformer import build
from anyformer.objectives import DiffusionObjective, Setting, loss_of
from anyformer.text import Specials

OBJECTIVE = DiffusionObjective()
TOKENIZER = make_tokenizer(Bytes(), tuple, tuple, Specials(roles=("mask",)))
SETTING = Setting(TOKENIZER, 64, seed=4)


def examples(rows: int, length: int = 64):
    tokens = np.random.default_rng(0).integers(0, 256, (rows, length))
    return OBJECTIVE.examples(Batch(tokens, tokens, np.arange(rows)), SETTING), torch.from_numpy(tokens)


def test_rows_are_masked_at_every_rate_and_weighted_by_its_inverse():
    made, tokens = examples(4000)
    masked = made.targets != IGNORED
    assert torch.equal(made.tokens[~masked], tokens[~masked])
    assert bool((made.tokens[masked] == TOKENIZER.special("mask")).all())
    assert torch.equal(made.targets[masked], tokens[masked])
    rate = 1 / made.weights[:, 0]
    assert torch.allclose(rate.sort().values, torch.linspace(0, 1, 4000), atol=0.03), "even in (0, 1)"
    assert float((masked.float().mean(1) - rate).abs().mean()) < 0.05
    # -log p of a model that knows nothing is log V, and so must be its bound.
    bound = (masked * made.weights).sum() * math.log(256) / made.counts.sum()
    assert float(bound) == pytest.approx(math.log(256), rel=0.04)


def test_the_loss_is_the_weighted_cross_entropy_of_the_masks():
    made, tokens = examples(6)
    model = build(architecture("llada-8b", tiny=True), seed=1)
    logits = model(made.tokens)
    total = 0.0
    for row in range(6):
        for place in range(64):
            if made.targets[row, place] != IGNORED:
                total += made.weights[row, 0] * F.cross_entropy(logits[row, place], tokens[row, place])
    torch.testing.assert_close(loss_of(OBJECTIVE, model, made, None), total, rtol=1e-5, atol=1e-4)
    assert made.count == 6 * 64


def test_a_causal_model_is_refused():
    with pytest.raises(ValueError, match="sees only earlier ones"):
        OBJECTIVE.check(architecture("gpt2", tiny=True))
