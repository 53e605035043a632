"""The model of an architecture as contracts look at it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

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


KEPT = 6
"""Models of the latest architectures that are kept, so that the contracts of one share its models."""


def looked_at(architecture: Architecture, plan: Plan | None = None) -> Transformer:
    """The same model, for contracts that only call it: one for all of an architecture, and not to be changed; its weights ask
    for no gradients, whose records would take a fifth of the time."""
    return _kept(architecture, plan, "cpu", lambda: evaluated(architecture, plan).requires_grad_(False))


def without_values(architecture: Architecture, plan: Plan | None = None) -> Transformer:
    """The model on the meta device in evaluation, likewise one for all; its weights ask for gradients as built."""
    return _kept(architecture, plan, "meta", lambda: build(architecture, plan, device="meta").eval())


def _kept(architecture: Architecture, plan: Plan | None, device: str, make: Callable[[], Transformer]) -> Transformer:
    key = id(architecture), plan or Plan(), device
    found = _models.pop(key, None)
    # The architecture is kept too: no other gets its identity. An equal one is another, since its code may have changed.
    _models[key] = found or (architecture, make())
    while len(_models) > KEPT:
        _models.popitem(last=False)
    return _models[key][1]


_models: OrderedDict[tuple[int, Plan, str], tuple[Architecture, Transformer]] = OrderedDict()
