"""The family of transformers that has a configuration for an architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anyformer.describe import DescriptionError, UserError, Value, diff
from anyformer.huggingface import plugin_families
from anyformer.huggingface.canonical import canonical
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.registry import FAMILIES, families_of, family
from anyformer.model import Architecture

SAMPLE = {
    "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip
"""Sizes under the usual keys: a configuration from which most families read a small model."""
FAR = 99_000
"""The distance of a family that refused: more than any number of differences."""


def find_family(architecture: Architecture, model_type: str | None = None) -> tuple[Family, dict[str, Any]]:
    """The family and configuration of exactly this architecture, but for its initialisation.

    Without `model_type` the first family that has one. Raises with the differences of the family, or of the nearest three.
    """
    candidates = [family(model_type)] if model_type else _all()
    wanted, forms = canonical(architecture), _forms(architecture)
    reasons: list[tuple[int, Family, list[str]]] = []
    for candidate in candidates:
        outcome = _attempt(candidate, forms, wanted)
        if isinstance(outcome, dict):
            return candidate, outcome
        distance, differences = outcome
        reasons.append((distance, candidate, differences))
    if model_type:
        differences = _different_parts(reasons[0][1], wanted) or reasons[0][2]
        raise HuggingFaceError(f"{model_type} cannot express this architecture: {_listed(differences)}")
    ranked = sorted(reasons, key=lambda reason: reason[0])
    nearest = [f"{candidate.model_type}: {_listed(differences)}" for _, candidate, differences in ranked[:3]]
    raise HuggingFaceError("\n  ".join(["no family of transformers expresses this architecture; the nearest:", *nearest]))


def _all() -> Iterator[Family]:
    """Every family, those of plug-ins last, which are loaded where no other has expressed the architecture."""
    for file in FAMILIES:
        yield from families_of(file)
    yield from plugin_families.families()


Outcome = dict[str, Any] | tuple[int, list[str]]
"""A configuration, or the family's distance from the architecture and the reasons why it has none."""


def _forms(architecture: Architecture) -> list[Architecture]:
    """The architecture, and with all of its sizes: one that is left out may mean another in a family than it means here."""
    resolved = architecture.resolved()
    return [architecture] if resolved == architecture else [architecture, resolved]


def _attempt(candidate: Family, forms: list[Architecture], wanted: Architecture) -> Outcome:
    """The configuration of `wanted` if the family has one, of the first of its forms from which it writes one."""
    outcomes = (_written(candidate, form, wanted) for form in forms)
    first = next(outcomes)
    return first if isinstance(first, dict) else next(outcomes, first)


def _written(candidate: Family, architecture: Architecture, wanted: Architecture) -> Outcome:
    try:
        config = candidate.write(architecture)
        again = candidate.read(Config(config))
    except DescriptionError as error:
        return FAR, [str(problem) for problem in error.problems]
    except UserError as error:
        return FAR, [str(error)]
    differences = [_difference(*change) for change in diff(canonical(again), wanted)]
    return (len(differences), differences) if differences else config


def _different_parts(candidate: Family, wanted: Architecture) -> list[str]:
    """Differences in parts between the family's models and `wanted`; empty where `SAMPLE` is no configuration of it."""
    try:
        usual = canonical(candidate.read(Config({**SAMPLE, "model_type": candidate.model_type})))
    except UserError:
        return []
    # A configuration sets numbers, words and order; the family sets the parts.
    return [_difference(*change) for change in diff(usual, wanted) if any(isinstance(value, Value) for value in change[1:])]


def _difference(path: str, left: Any, right: Any) -> str:
    """The family's value at a path and the architecture's: a part by its name, anything else as it is."""
    theirs, ours = (
        "none" if value is None else type(value).__name__ if isinstance(value, Value) else repr(value)
        for value in (left, right)
    )
    # Two parts of one name differ in a field, so both are written out.
    return f"{path} is {left!r} there and {right!r} here" if theirs == ours else f"{path} is {theirs} there and {ours} here"


def _listed(differences: list[str], most: int = 4) -> str:
    """Each difference once, the first few."""
    once = list(dict.fromkeys(differences))
    return "; ".join(once[:most]) + (f"; and {len(once) - most} more" if len(once) > most else "")
