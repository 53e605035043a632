"""Adapters beside the matrices of a model on paper."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from anyformer.model.adapters import dropping
from anyformer.model.transformer import Transformer
from anyformer.tuning.adapter import LowRankAdapter


def add_adapters(model: Transformer, paths: Iterable[str], adapter: LowRankAdapter) -> list[Tensor]:
    """Put the adapter beside every matrix of these paths, and return all its parameters."""
    wanted, made = set(paths), list[Tensor]()
    for name, module in list(model.named_modules()):
        for leaf, linear in list(module.named_children()):
            path = f"{name}.{leaf}.weight" if name else f"{leaf}.weight"
            if path in wanted and isinstance(linear, nn.Linear):
                adapted = dropping(adapter, linear, path.removesuffix(".weight"))
                setattr(module, leaf, adapted)
                kept = {id(x) for x in linear.parameters()}
                made += [x for x in adapted.parameters() if id(x) not in kept]
    model.find_draws()
    return made
