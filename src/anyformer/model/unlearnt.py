"""Weights that a rule moves, and no gradient."""

from __future__ import annotations

from functools import lru_cache

import torch

from anyformer.model.architecture import Architecture
from anyformer.model.transformer import Transformer


@lru_cache(maxsize=8)
def unlearnt(architecture: Architecture) -> frozenset[str]:
    """Names of the weights that a rule moves, and no gradient: statistics of norms, corrections of routers."""
    with torch.device("meta"):
        return frozenset(name for name, empty in Transformer(architecture).named_parameters() if not empty.requires_grad)
