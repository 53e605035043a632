"""Operations of element-wise work: every sum, difference, product, quotient and root of single numbers is one.

A norm of n features, RMSNorm: squares n, their mean n, eps and the root 2, quotients n, gain n: 4 n + 2, which is the row of
the table of "LLM, attention", section 14. LayerNorm besides: mean n, differences n, bias n: 7 n + 2; of G groups, 7 n + 2 G.
What a norm leaves out is not counted, nor the sum 1 + w of a gain, which no vector enters. BatchNorm, of statistics that stand:
difference, quotient, gain and bias, 4 n; training adds those of its statistics, about 3 n. A dynamic tanh: the factor alpha n,
an activation 4 n, gain n, bias n: 7 n.
A norm that reads a vector once and writes it once moves as many bytes as any other.

A threshold by mean and deviation of n features: mean n, differences n, squares n, mean n, root 1, its multiple and a sum 2,
differences n, and the greater of each and 0, n: 6 n + 3.

A modulation of n features: products n, sums n: 2 n; a gate: 1 n.

The rest as in that table. A rotated feature: 3. A softmax: 3 per score; in its place a sigmoid 5, softpick
6: exponential, 1, absolute value and its sum, rectifier, quotient. An activation: 4 per feature, the count of SiLU, and 1
for the product with a gated network's other half. An addition: 1. Constant factors, of embeddings, branches, scores and logits,
are not counted, nor are sums of rows that are looked up.
"""

from __future__ import annotations

from anyformer.operations import Elementwise, Kind

ROTATED = 3
SCORE = 3
ACTIVATED = 4
GATED = 1
THRESHOLDED = 6


def normalised(features: int, vectors: int, each: int) -> Elementwise:
    """A norm of `vectors` vectors of n features with `each` operations on one; it reads and writes them."""
    return _even("norms", vectors * each, 2 * vectors * features)


def rotated(features: int) -> Elementwise:
    """A rotation of `features` features."""
    return _even("rotary", ROTATED * features, 2 * features)


def modulated(features: int) -> Elementwise:
    """A factor and a shift of `features` features: it reads and writes them."""
    return _even("norms", 2 * features, 2 * features)


def gated(features: int) -> Elementwise:
    """A factor of `features` features: it reads and writes them."""
    return _even("residual", features, 2 * features)


def softmax(scores: int, exact: int, each: int = SCORE) -> Elementwise:
    """A softmax over `scores` scores, `exact` of them allowed by the mask; `each`: operations of what is in its place."""
    return Elementwise("softmax", each * scores, each * exact)


def activated(features: int, *, gated: bool = False) -> Elementwise:
    """An activation of `features` features; `gated`: then multiplied by as many others."""
    return _even("activations", features * (ACTIVATED + GATED * gated), (2 + gated) * features)


def thresholded(features: int, vectors: int) -> Elementwise:
    """The features of `vectors` vectors of n features less a threshold, or 0: it reads and writes them."""
    return _even("activations", vectors * (THRESHOLDED * features + 3), 2 * vectors * features)


def added(features: int) -> Elementwise:
    """`features` sums of two numbers: two read, one written."""
    return _even("residual", features, 3 * features)


def interpolated(features: int) -> Elementwise:
    """A share of the way of `features` features to others: differences and products; two read, one written."""
    return _even("residual", 2 * features, 3 * features)


def _even(kind: Kind, count: int, moved: int) -> Elementwise:
    return Elementwise(kind, count, count, moved)
