"""Weights of a formula, for logits that were recorded from classes which the tests' own transformers does not have."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from anyformer import Architecture, build, huggingface
from anyformer.huggingface.rules import rules


def by_formula(shapes: Mapping[str, tuple[int, ...]], loudness: float = 0.4) -> dict[str, Tensor]:
    """Tensors by name: loudness * sin(i (1 + k / 7) + k), i their numbers, k the place of the name among all."""
    made = {}
    for k, name in enumerate(sorted(shapes)):
        i = torch.arange(prod(shapes[name]), dtype=torch.float64)
        made[name] = (loudness * torch.sin(i * (1 + k / 7) + k)).float().view(shapes[name])
    return made


def stored_shapes(architecture: Architecture, model_type: str) -> dict[str, tuple[int, ...]]:
    """The stored tensors of an architecture, by name."""
    with torch.device("meta"):
        parameters = {name: torch.empty(each.shape) for name, each in build(architecture, device="meta").named_parameters()}
        family = huggingface.family(model_type)
        shapes = {name: tuple(each.shape) for name, each in parameters.items()}
        return {
            stored: tuple(written.shape)
            for rule in rules(family.names_of(architecture), shapes)
            for stored, written in zip(rule.stored, rule.op.write([parameters[name] for name in rule.parameters]), strict=True)
        }
