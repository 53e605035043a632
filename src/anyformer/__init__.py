"""anyformer: any transformer, from one description: know what it costs, train it, compare it, run it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer import inspecting as inspect
    from anyformer.api import cost, difference, flops, match, mfu, transform
    from anyformer.building import build
    from anyformer.costs import Budget
    from anyformer.describe import change, diff, get, load_plugin
    from anyformer.generation import generate
    from anyformer.huggingface import export, export_gguf
    from anyformer.loading import load, pixels, sounds
    from anyformer.model import Architecture, decoder_only, encoder_decoder, encoder_only
    from anyformer.model.transformer import Transformer
    from anyformer.plan import Plan
    from anyformer.resolving import architecture
    from anyformer.studies import Study, compare
    from anyformer.training import Run, train

__version__ = "0.1.0"

# Resolved at first use: importing anyformer imports no torch.
_HOMES = {
    "api": ("cost", "difference", "flops", "match", "mfu", "transform"),
    "building": ("build",),
    "costs": ("Budget",),
    "describe": ("change", "diff", "get", "load_plugin"),
    "generation": ("generate",),
    "huggingface": ("export", "export_gguf"),
    "loading": ("load", "pixels", "sounds"),
    "model": ("Architecture", "decoder_only", "encoder_decoder", "encoder_only"),
    "model.transformer": ("Transformer",),
    "plan": ("Plan",),
    "resolving": ("architecture",),
    "studies": ("Study", "compare"),
    "training": ("Run", "train"),
}
_ROOMS = {"inspect": "inspecting"}
"""Rooms that are a name of the package themselves."""

__all__ = [
    "Architecture",
    "Budget",
    "Plan",
    "Run",
    "Study",
    "Transformer",
    "architecture",
    "build",
    "change",
    "compare",
    "cost",
    "decoder_only",
    "diff",
    "difference",
    "encoder_decoder",
    "encoder_only",
    "export",
    "export_gguf",
    "flops",
    "generate",
    "get",
    "inspect",
    "load",
    "load_plugin",
    "match",
    "mfu",
    "pixels",
    "sounds",
    "train",
    "transform",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"anyformer.{_ROOMS[name]}")
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"anyformer.{home}"), name)
    raise AttributeError(f"module 'anyformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
