"""What tests of `transforming` share: models whose weights are far from their initial values, and how far outputs lie apart."""

from __future__ import annotations

import torch

import anyformer as af
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.testing.inputs import inputs


def trained(architecture: Architecture, seed: int = 1) -> Transformer:
    """A model in which no weight is 0, 1 or equal to another, as if it were trained."""
    model = af.build(architecture)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def apart(old: Transformer, new: Transformer) -> float:
    """The largest difference of outputs that both have, over the largest output."""
    given = inputs(old.architecture)
    with torch.no_grad():
        here, there = old(*given), new(*given)
    count = min(here.shape[-1], there.shape[-1])
    return float((here[..., :count] - there[..., :count]).abs().max() / here.abs().max())


def tiny(name: str, **changes: object) -> Architecture:
    """A tiny entry of the catalogue, changed at paths in which `__` stands for a dot."""
    return af.architecture(name, tiny=True, changes={path.replace("__", "."): value for path, value in changes.items()})
