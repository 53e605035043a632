"""Optimisers of a run: built from their descriptions, with their state as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from zlib import crc32

import torch
from torch import Tensor, nn

from anyformer.checkpoint import values_like
from anyformer.model.transformer import Transformer
from anyformer.precision import Precision
from anyformer.training.averaging import TRAINED, Averages, none
from anyformer.training.optimisers.narrow_weights import narrowed
from anyformer.training.optimisers.rules import ByRule, Learner, groups_of
from anyformer.tuning import Optimiser
from anyformer.tuning.optimisers.rule_module import COUNTERS

WIDE = 4
"""Bytes of a weight in fp32."""


def build_optimiser(
    optimiser: Optimiser, model: Transformer, precision: Precision | None = None, seed: int = 0
) -> torch.optim.Optimizer:
    """The optimiser of a description, over all parameters of `model` that take a gradient, in groups of equal pace.

    A `precision` with weights in bf16 rounds these parameters, and the optimiser begins with what it keeps of them in fp32;
    `seed`: of roundings by chance.
    """
    declared, optimiser = model.declared, optimiser.beside("fp32" if precision is None else precision.number)
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    paces = optimiser.paces({name: declared[name] for name in parameters})
    learners = [Learner(parameter, optimiser.rule(declared[name]), paces[name]) for name, parameter in parameters.items()]
    groups = groups_of(learners, optimiser.learning_rate)
    if precision is None or precision.weight_bytes == WIDE:
        return optimiser_of(groups)
    built, names = ByRule(groups), {parameter: name for name, parameter in parameters.items()}
    groups, built.param_groups = built.param_groups, []
    for group in groups:
        for parameter in group["params"]:
            # Chances are keyed by the weight's name, so every weight is a group.
            key = crc32(f"{seed}/{names[parameter]}".encode())
            rule = narrowed(group["rule"], masters=precision.masters, key=key)
            built.add_param_group({**group, "params": [parameter], "rule": rule})
            built.state[parameter].update(rule.start(parameter))
            parameter.data = parameter.data.to(torch.bfloat16)
    return built


def optimiser_of(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """The optimiser over groups: torch's own where one changes all of them at once, else each weight by its rule."""
    first, *others = {group["rule"] for group in groups}
    fused = None if others else first.fused([{key: item for key, item in group.items() if key != "rule"} for group in groups])
    return ByRule(groups) if fused is None else fused


def averages_of(optimiser: Optimiser, built: torch.optim.Optimizer) -> Averages:
    """The weights that an optimiser evaluates with, where they are not those it trains."""
    return partial(_means, built) if optimiser.averages else none


@torch.no_grad()
def _means(built: torch.optim.Optimizer) -> Mapping[nn.Parameter, Tensor]:
    """The mean of every parameter that has been updated."""
    return {
        parameter: group["rule"].mean(parameter, built.state[parameter])
        for group in built.param_groups
        for parameter in group["params"]
        if built.state.get(parameter)
    }


def state_tensors(optimiser: torch.optim.Optimizer, model: Transformer) -> dict[str, Tensor]:
    """The optimiser's state by parameter name: `decoder...weight/exp_avg` and so on; empty before the first update."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_state_tensors(optimiser: torch.optim.Optimizer, model: Transformer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `state_tensors` returned; weights in training beside it are those of `averaging`."""
    parameters = dict(model.named_parameters())
    for key in tensors:
        name, _, field = key.rpartition("/")
        if field != TRAINED and (parameter := parameters.get(name)) is not None:
            # Moments, and torch's own counter, live beside their parameter; our counters stay on the CPU.
            kept = tensors[key].clone() if field in COUNTERS else values_like(tensors, key, parameter)
            optimiser.state[parameter][field] = kept
