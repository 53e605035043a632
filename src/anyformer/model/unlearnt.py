"""Weights that a rule moves, and no gradient."""

from __future__ import annotations

from functools import lru_cache

from anyformer.model.architecture import Architecture
from anyformer.operations import Shape


@lru_cache(maxsize=8)
def unlearnt(architecture: Architecture) -> frozenset[str]:
    """Names of the weights that a rule moves, and no gradient: statistics of norms, corrections of routers."""
    declared = architecture.trained_cost(Shape(source=1)).weights
    return frozenset(name for name, weight in declared.items() if not weight.learnt)
