"""Hugging Face checkpoints both ways: a directory of transformers' layout to a model of ours, and back.

What reads a configuration is imported at once, and needs no torch; all else at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyformer.huggingface.composites import COMPOSITES
from anyformer.huggingface.config import Config, read_config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.missing import MISSING
from anyformer.huggingface.registry import (
    ALIASES,
    FAMILIES,
    READ_ONLY,
    family,
    family_of,
    own,
    read_architecture,
    register,
    text_keys,
)

if TYPE_CHECKING:
    from anyformer.huggingface.card import Facts
    from anyformer.huggingface.convert import architecture_of, load
    from anyformer.huggingface.find import find_family
    from anyformer.huggingface.gguf import export_gguf
    from anyformer.huggingface.peft_files import read_adapter, write_adapter
    from anyformer.huggingface.peft_merging import merge_adapter
    from anyformer.huggingface.pixel_values import pixels
    from anyformer.huggingface.sound.models import HEARING
    from anyformer.huggingface.sound_features import sounds
    from anyformer.huggingface.stored_form import StoredForm, form_of
    from anyformer.huggingface.towers import CompositeTower, TowersAsked, aside, left_aside, told_of, towers_asked
    from anyformer.huggingface.trained_pixels import TrainedPixels
    from anyformer.huggingface.two_towers import export_two_towers, load_two_towers, read_two_towers
    from anyformer.huggingface.verifying import Verdict, verify
    from anyformer.huggingface.writing import export

_HOMES = {
    "card": ("Facts",),
    "convert": ("architecture_of", "load"),
    "find": ("find_family",),
    "gguf": ("export_gguf",),
    "peft_files": ("read_adapter", "write_adapter"),
    "peft_merging": ("merge_adapter",),
    "pixel_values": ("pixels",),
    "sound.models": ("HEARING",),
    "sound_features": ("sounds",),
    "stored_form": ("StoredForm", "form_of"),
    "towers": ("CompositeTower", "TowersAsked", "aside", "left_aside", "told_of", "towers_asked"),
    "trained_pixels": ("TrainedPixels",),
    "two_towers": ("export_two_towers", "load_two_towers", "read_two_towers"),
    "verifying": ("Verdict", "verify"),
    "writing": ("export",),
}
"""No file here has the name of what it holds: importing it would put the module where the function is looked for."""

__all__ = [
    "ALIASES",
    "COMPOSITES",
    "FAMILIES",
    "HEARING",
    "MISSING",
    "READ_ONLY",
    "CompositeTower",
    "Config",
    "Facts",
    "Family",
    "HuggingFaceError",
    "StoredForm",
    "TowersAsked",
    "TrainedPixels",
    "Verdict",
    "architecture_of",
    "aside",
    "export",
    "export_gguf",
    "export_two_towers",
    "family",
    "family_of",
    "find_family",
    "form_of",
    "left_aside",
    "load",
    "load_two_towers",
    "merge_adapter",
    "own",
    "pixels",
    "read_adapter",
    "read_architecture",
    "read_config",
    "read_two_towers",
    "register",
    "sounds",
    "text_keys",
    "told_of",
    "towers_asked",
    "verify",
    "write_adapter",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"anyformer.huggingface.{home}"), name)
    raise AttributeError(f"module 'anyformer.huggingface' has no attribute {name!r}")
