"""anyformer: any transformer, from one description: know what it costs, train it, compare it, run it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer.catalogue import architecture
    from anyformer.compare import difference
    from anyformer.costs import Budget, cost, match
    from anyformer.generation import generate
    from anyformer.huggingface import export
    from anyformer.loading import load
    from anyformer.model import Architecture, Transformer, build, decoder_only, encoder_decoder, encoder_only
    from anyformer.plan import Plan
    from anyformer.training import Run, train

__version__ = "0.1.0"

# Resolved at first use: importing anyformer imports no torch.
_HOMES = {
    "Architecture": "model",
    "Budget": "costs",
    "Plan": "plan",
    "Run": "training",
    "Transformer": "model",
    "architecture": "catalogue",
    "build": "model",
    "cost": "costs",
    "decoder_only": "model",
    "difference": "compare",
    "encoder_decoder": "model",
    "encoder_only": "model",
    "export": "huggingface",
    "generate": "generation",
    "load": "loading",
    "match": "costs",
    "train": "training",
}

__all__ = [
    "Architecture",
    "Budget",
    "Plan",
    "Run",
    "Transformer",
    "architecture",
    "build",
    "cost",
    "decoder_only",
    "difference",
    "encoder_decoder",
    "encoder_only",
    "export",
    "generate",
    "load",
    "match",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anyformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"anyformer.{_HOMES[name]}"), name)
