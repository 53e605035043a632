"""The model of an architecture as contracts look at it."""

from __future__ import annotations

from collections import OrderedDict

import torch

from anyformer.model import Architecture
from anyformer.model.transformer import Transformer, build
from anyformer.plan import Plan

STEP = 0.1
"""The size of the numbers that are added to weights which begin as constants."""


def evaluated(architecture: Architecture, plan: Plan | None = None, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model in evaluation, whose weights that begin as one number are moved from it: a part behind a gate of zeros would
    do nothing, and nobody would see its mistakes."""
    model, draws = build(architecture, plan, dtype=dtype).eval(), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point() and weight.numel() and bool((weight == weight.flatten()[0]).all()):
                weight.add_(torch.randn(weight.shape, dtype=dtype, generator=draws), alpha=STEP)
    return model


KEPT = 2
"""Models of the latest architectures that are kept, so that the contracts of one share its model."""


def looked_at(architecture: Architecture) -> Transformer:
    """The same model, for contracts that only call it: one for all of an architecture, and not to be changed."""
    found = _models.pop(id(architecture), None)
    # The architecture is kept too: no other gets its identity. An equal one is another, since its code may have changed.
    _models[id(architecture)] = found or (architecture, evaluated(architecture))
    while len(_models) > KEPT:
        _models.popitem(last=False)
    return _models[id(architecture)][1]


_models: OrderedDict[int, tuple[Architecture, Transformer]] = OrderedDict()
