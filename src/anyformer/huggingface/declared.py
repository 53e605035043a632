"""The weights that an architecture declares, and the tensors in which a family stores them, before any number is there."""

from __future__ import annotations

import torch

from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import WeightRule, rules
from anyformer.model import Architecture
from anyformer.operations import Shape


def shapes_of(architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Name of a weight that is trained or kept -> its shape."""
    return {name: weight.shape for name, weight in architecture.trained_cost(Shape()).weights.items()}


def stored_shapes(architecture: Architecture, family: Family) -> dict[str, tuple[int, ...]]:
    """Name of a tensor in the family's files -> its shape, in the order in which they are written."""
    shapes = shapes_of(architecture)
    return dict(pair for rule in rules(family.names_of(architecture), shapes) for pair in shapes_in(rule, shapes).items())


def shapes_in(rule: WeightRule, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Name of a tensor of one rule -> its shape, without copies and tensors that nothing is computed with."""
    written = rule.op.write([torch.empty(shapes[name], device="meta") for name in rule.parameters])
    return {name: tuple(tensor.shape) for name, tensor in zip(rule.stored, written, strict=True)}
