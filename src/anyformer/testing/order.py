"""No position sees a later one, or the architecture says so."""

from __future__ import annotations

from anyformer.model import Architecture, build
from anyformer.testing.close import equal, unequal
from anyformer.testing.inputs import tokens
from anyformer.testing.traits import decodes_tokens, limits

CHANGED = 6
"""The first position that is changed."""


def no_token_sees_a_later_one(architecture: Architecture) -> None:
    """What is before the changed tokens stays; of a decoder, all that is after them changes."""
    model, x = build(architecture).eval(), tokens(architecture)
    y = x.clone()
    y[:, CHANGED:] = (y[:, CHANGED:] + 1) % (architecture.embedding.symbols or 1)
    before, after = model(x), model(y)
    reasons = limits(architecture, "causal")
    if reasons:
        unequal(before[:, CHANGED - 1], after[:, CHANGED - 1], f"causal, not held because {reasons[0]}")
        return
    equal(before[:, :CHANGED], after[:, :CHANGED], "a token sees later ones")
    if decodes_tokens(architecture):
        moved = (before[:, CHANGED:] - after[:, CHANGED:]).abs().amax(-1).min()
        assert moved > 1e-4, "a changed token changes nothing at its own position or a later one"
