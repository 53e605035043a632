"""What a family of Hugging Face models says of itself, and where each is found."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.describe import UserError, did_you_mean, diff
from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.rules import Names
from anyformer.model import Architecture
from anyformer.parts import Initialisation


@dataclass(frozen=True)
class Family:
    """One model type of transformers, both ways. `read(write(a)) == a` for every `a` that `write` accepts."""

    model_type: str
    read: Callable[[Config], Architecture]
    write: Callable[[Architecture], dict[str, Any]]
    names: Callable[[Architecture], Names]
    default_class: str
    """The class of transformers that an export names, unless `write` gives `architectures`."""
    inert: tuple[str, ...] = ()
    """Keys of its configuration that change nothing that is computed."""
    ignored: tuple[str, ...] = ()
    """Patterns of stored tensors that no model needs: buffers."""
    kernel: str = "eager"
    """The attention implementation of transformers that defines its numbers."""


FAMILIES: Mapping[str, tuple[str, ...]] = {
    "llama": ("llama",),
    "bart": ("bart", "mbart", "plbart", "mvp", "blenderbot", "blenderbot-small"),
    "pegasus": ("pegasus",),
    "bigbird_pegasus": ("bigbird_pegasus",),
    "marian": ("marian",),
    "m2m_100": ("m2m_100",),
    "fsmt": ("fsmt",),
    "t5": ("t5", "mt5", "umt5"),
    "longt5": ("longt5",),
    "switch_transformers": ("switch_transformers",),
    "whisper": ("whisper",),
    "speech_to_text": ("speech_to_text",),
    "t5gemma": ("t5gemma",),
}
"""File in `families` -> the model types in it, in the order in which an export tries them."""


def family(model_type: str) -> Family:
    """The family of a model type; refuses an unknown one with the known."""
    if model_type == "anyformer":
        return own()
    for file, types in FAMILIES.items():
        if model_type in types:
            return next(each for each in families_of(file) if each.model_type == model_type)
    known = [each for types in FAMILIES.values() for each in types]
    raise HuggingFaceError(
        f"model type {model_type!r} is not known here{did_you_mean(model_type, known)}; known: {', '.join(sorted(known))}"
    )


def own() -> Family:
    """The family of our own layout, which expresses every architecture."""
    found: Family = importlib.import_module("anyformer.huggingface.own").OWN
    return found


def families_of(file: str) -> Iterable[Family]:
    """The families that a file defines."""
    found: Iterable[Family] = importlib.import_module(f"anyformer.huggingface.families.{file}").FAMILIES
    return found


def read_architecture(config: Config) -> tuple[Architecture, Family]:
    """The architecture of a configuration; every key is read, known to be inert, or refused by name."""
    found = family(config.model_type)
    made = found.read(config)
    config.finish(found.inert)
    return made, found


def express(architecture: Architecture, model_type: str | None = None) -> tuple[Family, dict[str, Any]]:
    """The family and configuration that give exactly this architecture (how weights start aside).

    Without `model_type` the first family that can; raises with the reasons of the nearest where none can.
    """
    candidates = [family(model_type)] if model_type else [each for file in FAMILIES for each in families_of(file)]
    reasons: list[tuple[int, str]] = []
    for each in candidates:
        differences = _attempt(each, architecture)
        if not isinstance(differences, list):
            return each, differences
        reasons.append((len(differences), f"{each.model_type}: {'; '.join(differences[:4])}"))
    nearest = "\n  ".join(reason for _, reason in sorted(reasons)[:3])
    raise HuggingFaceError(f"no family of transformers expresses this architecture; the nearest:\n  {nearest}")


def _attempt(each: Family, architecture: Architecture) -> dict[str, Any] | list[str]:
    """The configuration, or how far the family is from it."""
    try:
        config = {**each.write(architecture), "model_type": each.model_type}
        again = each.read(Config(config))
    except (UserError, LookupError, AssertionError) as error:
        return [str(error).splitlines()[0]] * 99
    plain = Initialisation()
    differences = diff(again.but(initialisation=plain), architecture.but(initialisation=plain))
    return [f"{path}: {left!r} there, {right!r} here" for path, left, right in differences] or config
