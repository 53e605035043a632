"""anyformer: any transformer, from one description: know what it costs, train it, compare it, run it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer.api import build, cost, difference, match
    from anyformer.costs import Budget
    from anyformer.describe import change, diff, get
    from anyformer.generation import generate
    from anyformer.huggingface import export
    from anyformer.loading import load
    from anyformer.model import Architecture, Transformer, decoder_only, encoder_decoder, encoder_only
    from anyformer.plan import Plan
    from anyformer.resolving import architecture
    from anyformer.training import Run, train

__version__ = "0.1.0"

# Resolved at first use: importing anyformer imports no torch.
_HOMES = {
    "Architecture": "model",
    "Budget": "costs",
    "Plan": "plan",
    "Run": "training",
    "Transformer": "model",
    "architecture": "resolving",
    "build": "api",
    "change": "describe",
    "cost": "api",
    "decoder_only": "model",
    "diff": "describe",
    "difference": "api",
    "encoder_decoder": "model",
    "encoder_only": "model",
    "export": "huggingface",
    "generate": "generation",
    "get": "describe",
    "load": "loading",
    "match": "api",
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
    "change",
    "cost",
    "decoder_only",
    "diff",
    "difference",
    "encoder_decoder",
    "encoder_only",
    "export",
    "generate",
    "get",
    "load",
    "match",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anyformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"anyformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
