"""How many operations element-wise work takes, as `docs/notes.md` has them ("LLM, attention", section 14, table).

A norm of n features: 4 n + 2 (square, sum, root, scale and gain), whatever its kind. A rotated feature: 3. A softmax: 3 per
score. An activation: 4 per feature, as SiLU has them, and 1 for the product with a gated network's other half. An addition: 1.
"""

from __future__ import annotations

ROTATED = 3
SCORE = 3
ACTIVATED = 4
GATED = 1


def normalised(features: int, vectors: int = 1) -> int:
    """Operations of so many norms over `features` each."""
    return vectors * (4 * features + 2)
