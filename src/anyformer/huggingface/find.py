"""Which family of transformers has a configuration for an architecture."""

from __future__ import annotations

from typing import Any

from anyformer.describe import DescriptionError, Named, UserError, Value, diff
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.registry import FAMILIES, families_of, family
from anyformer.model import Architecture
from anyformer.parts import Initialisation, Stack

SAMPLE = {
    "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip
"""Sizes of the usual names: a configuration from which most families read what their models are made of."""
FAR = 99_000
"""The distance of a family that refused, beyond any number of differences."""


def find_family(architecture: Architecture, model_type: str | None = None) -> tuple[Family, dict[str, Any]]:
    """The family and configuration that give exactly this architecture; how weights start does not count.

    Without `model_type` the first family that can. Raises with the differences, or with those of the nearest families.
    """
    candidates = [family(model_type)] if model_type else [each for file in FAMILIES for each in families_of(file)]
    wanted = canonical(architecture)
    reasons: list[tuple[int, Family, list[str]]] = []
    for each in candidates:
        found = _attempt(each, architecture, wanted)
        if isinstance(found, dict):
            return each, found
        distance, differences = found
        reasons.append((distance, each, differences))
    if model_type:
        differences = _made_of(candidates[0], wanted) or reasons[0][2]
        raise HuggingFaceError(f"{model_type} cannot express this architecture: {_told(differences)}")
    nearest = [f"{each.model_type}: {_told(found)}" for _, each, found in sorted(reasons, key=lambda reason: reason[0])[:3]]
    raise HuggingFaceError("\n  ".join(["no family of transformers expresses this architecture; the nearest:", *nearest]))


def canonical(architecture: Architecture) -> Architecture:
    """What is equal for architectures that compute the same: how weights start and what layers are called do not count."""
    plain = {"initialisation": Initialisation()} | {name: _numbered(stack) for name, stack in architecture.stacks.items()}
    return architecture.but(**plain).resolved()


def _numbered(stack: Stack) -> Stack:
    """Variants called by the order in which they come; the names stay where a layer speaks of another's."""
    if any(read.variant for read in stack.reads):
        return stack
    names = {name: f"layer{i}" for i, name in enumerate(dict.fromkeys(stack.layers))}
    return stack.but(
        variants=Named({names[name]: stack.variants[name] for name in names}),
        order=" ".join(names[name] for name in stack.layers),
        shared_weights=tuple(names[name] for name in stack.shared_weights),
    )


def _attempt(each: Family, architecture: Architecture, wanted: Architecture) -> dict[str, Any] | tuple[int, list[str]]:
    """The configuration, or how far the family is from what is `wanted`, and the reasons.

    What a family gives for a size that is left out may not be what follows from the others here; written out it is.
    """
    found = _written(each, architecture, wanted)
    return found if isinstance(found, dict) else _written(each, architecture.resolved(), wanted)


def _written(each: Family, architecture: Architecture, wanted: Architecture) -> dict[str, Any] | tuple[int, list[str]]:
    try:
        config = each.write(architecture)
        again = each.read(Config(config))
    except DescriptionError as error:
        return FAR, [str(problem) for problem in error.problems]
    except UserError as error:
        return FAR, [str(error)]
    differences = [_difference(*each) for each in diff(canonical(again), wanted)]
    return (len(differences), differences) if differences else config


def _made_of(each: Family, wanted: Architecture) -> list[str]:
    """Where the family's models are made of other parts than `wanted`; empty where that cannot be said."""
    try:
        usual = canonical(each.read(Config({**SAMPLE, "model_type": each.model_type})))
    except UserError:
        return []
    # Numbers, words and order are what a configuration sets; parts are what the family is.
    return [_difference(*each) for each in diff(usual, wanted) if any(isinstance(value, Value) for value in each[1:])]


def _difference(path: str, left: Any, right: Any) -> str:
    """What a family has at a path, and what is here: a part by its name, anything else as it is."""
    there, here = (
        "none" if value is None else type(value).__name__ if isinstance(value, Value) else repr(value)
        for value in (left, right)
    )
    # Two parts of one name differ in something; then all of both is said.
    return f"{path} is {left!r} there and {right!r} here" if there == here else f"{path} is {there} there and {here} here"


def _told(differences: list[str], most: int = 4) -> str:
    """Each difference once, the first few."""
    once = list(dict.fromkeys(differences))
    return "; ".join(once[:most]) + (f"; and {len(once) - most} more" if len(once) > most else "")
