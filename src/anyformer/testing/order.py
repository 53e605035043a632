"""The contract of causality: no position sees a later one, or the architecture declares that it does."""

from __future__ import annotations

from anyformer.model import Architecture
from anyformer.testing.comparisons import equal_unless
from anyformer.testing.inputs import tokens
from anyformer.testing.models import looked_at
from anyformer.testing.traits import decodes_tokens, limits

CHANGED = 6
"""The first position that is changed."""


def no_token_sees_a_later_one(architecture: Architecture) -> None:
    """Changing or leaving out later tokens changes no earlier logits; in a decoder it changes all logits from there on."""
    model, x = looked_at(architecture), tokens(architecture)
    y = x.clone()
    y[:, CHANGED:] = (y[:, CHANGED:] + 1) % (architecture.embedding.symbols or 1)
    before, after = model(x), model(y)
    reasons = limits(architecture, "causal")
    pairs = {
        "a later token is changed": (after[:, :CHANGED], before[:, :CHANGED]),
        "later tokens are left out": (model(x[:, :CHANGED]), before[:, :CHANGED]),
    }
    equal_unless(reasons, pairs)
    if decodes_tokens(architecture) and not reasons:
        moved = (before[:, CHANGED:] - after[:, CHANGED:]).abs().amax(-1).min()
        assert moved > 1e-4, "a changed token changes nothing at its own position or a later one"
