"""Adapters in a built model, and the model that they make with it when they are merged."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from anyformer.describe import UserError
from anyformer.model.transformer import Transformer
from anyformer.operations import Shape, Weight
from anyformer.parts.initialisation import FanIn, Initialisation
from anyformer.tuning import AdaptedLinear, Adapter
from anyformer.tuning.adapter import OWN

_RULES = Initialisation(matrix=FanIn())
"""A starts at N(0, 1 / inputs), so that its outputs have the variance of its inputs; B at zero."""


def adapt(model: Transformer, adapter: Adapter, seed: int) -> None:
    """Put the adapter beside its matrices, with values keyed by (`seed`, name); outputs stay those of the model.

    On the meta device without values. Raises `UserError` for a matrix that no linear map of its own holds.
    """
    tally = model.architecture.trained_cost(Shape(source=1))
    wanted = adapter.ranks(tally)
    holders = [(name, module) for name, module in model.named_modules() if not isinstance(module, AdaptedLinear)]
    found = set()
    for holder, module in holders:
        for leaf, linear in list(module.named_children()):
            name = f"{holder}.{leaf}" if holder else leaf
            if (path := f"{name}.weight") in wanted and type(linear) is nn.Linear:
                own = adapter.beside(tally.weights[path])
                model.added |= {f"{name}.{word}": weight for word, weight in own.items()}
                setattr(module, leaf, _adapted(adapter, linear, name, own, seed))
                found.add(path)
    for path in wanted:
        if path not in found:
            raise UserError(
                f"tuning.adapter.targets: {path} is not the matrix of a plain linear map, so it has no adapter; name others"
            )
    model.adapter = adapter


def _adapted(adapter: Adapter, linear: nn.Linear, name: str, own: Mapping[str, Weight], seed: int) -> AdaptedLinear:
    """The linear map called `name` with its adapter, whose parameters are `own`, begun."""
    made = adapter.linear(linear).train(linear.training)
    if not made.weight.is_meta:
        with torch.no_grad():
            for word, weight in own.items():
                made.get_parameter(word).copy_(_RULES.fill(weight, f"{name}.{word}", seed))
        made.begin()
    return made


def begin(model: Transformer) -> None:
    """Give parameters of adapters that follow from frozen weights their first values, as after other weights were taken."""
    for module in model.modules():
        if isinstance(module, AdaptedLinear):
            module.begin()


def merged_weights(adapter: Adapter, base: Mapping[str, Tensor], added: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a plain model that computes what weights `base` and an adapter's parameters `added` do.

    Both are by name; adapted weights are computed in fp32 and have the type of the base.
    """
    merged = dict(base)
    for path, weight in base.items():
        name = path.removesuffix(".weight")
        own = {word: added[f"{name}.{word}"] for word in OWN if f"{name}.{word}" in added}
        if own:
            whole = adapter.merged(weight.float(), {word: x.to(weight.device, torch.float32) for word, x in own.items()})
            merged[path] = whole.to(weight.dtype)
    return merged


def plain(model: Transformer, weights: Mapping[str, Tensor] | None = None) -> Transformer:
    """A model without adapters that computes what `model` does, in evaluation mode; it shares what is not merged.

    `weights`: other values by name, instead of some of the model's own.
    """
    values = {name: (weights or {}).get(name, parameter.detach()) for name, parameter in model.named_parameters()}
    base = {name: value for name, value in values.items() if name not in model.added}
    if model.adapter is not None:
        base = merged_weights(model.adapter, base, {name: values[name] for name in model.added})
    plan = model.plan if model.plan.precision.narrow is None else model.plan.but(precision=model.plan.number)
    with torch.device("meta"):
        made = Transformer(model.architecture, plan)
    for name, module in made.named_modules():
        for leaf, empty in list(module.named_parameters(recurse=False)):
            value = base[f"{name}.{leaf}" if name else leaf]
            setattr(module, leaf, nn.Parameter(value, requires_grad=empty.requires_grad))
    return made.eval()
