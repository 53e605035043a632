"""Operations of element-wise work, counted as in `docs/notes.md` ("LLM, attention", section 14, table).

A norm of n features: 4 n + 2 (square, sum, root, scale and gain), whatever its kind. A rotated feature: 3. A softmax: 3 per
score. An activation: 4 per feature, the count of SiLU, and 1 for the product with a gated network's other half. An addition: 1.
"""

from __future__ import annotations

from anyformer.operations import Elementwise, Kind

ROTATED = 3
SCORE = 3
ACTIVATED = 4
GATED = 1


def normalised(features: int, vectors: int) -> Elementwise:
    """A norm of each of `vectors` vectors of n features; it reads and writes them."""
    return _even("norms", vectors * (4 * features + 2), 2 * vectors * features)


def rotated(features: int) -> Elementwise:
    """A rotation of `features` features."""
    return _even("rotary", ROTATED * features, 2 * features)


def softmax(scores: int, exact: int) -> Elementwise:
    """A softmax over `scores` scores, `exact` of them allowed by the mask."""
    return Elementwise("softmax", SCORE * scores, SCORE * exact)


def activated(features: int, *, gated: bool = False) -> Elementwise:
    """An activation of `features` features; `gated`: then multiplied by as many others."""
    return _even("activations", features * (ACTIVATED + GATED * gated), (2 + gated) * features)


def added(features: int) -> Elementwise:
    """`features` sums of two numbers: two read, one written."""
    return _even("residual", features, 3 * features)


def _even(kind: Kind, count: int, moved: int) -> Elementwise:
    return Elementwise(kind, count, count, moved)
