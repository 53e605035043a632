"""Optimisers of a run: built from their descriptions, with their state as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.model import Transformer
from anyformer.training.averaging import TRAINED, Averages, none
from anyformer.training.optimisers import adafactor, adamw, adamw_8bit, lion, muon, schedule_free, sgd
from anyformer.training.optimisers.rules import COUNTERS, Learner
from anyformer.tuning import SGD, Adafactor, AdamW, AdamW8bit, Lion, Muon, Optimiser, ScheduleFree

if TYPE_CHECKING:
    pass

BUILDERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    AdamW().kind: adamw.build,
    AdamW8bit().kind: adamw_8bit.build,
    ScheduleFree().kind: schedule_free.build,
    SGD().kind: sgd.build,
    Lion().kind: lion.build,
    Adafactor().kind: adafactor.build,
    Muon().kind: muon.build,
}
"""Functions that build optimisers over the parameters that learn, by the kind of their descriptions."""


def build_optimiser(optimiser: Optimiser, model: Transformer) -> torch.optim.Optimizer:
    """The optimiser of a description, over all parameters of `model` that take a gradient, in groups of equal pace."""
    declared = model.declared
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    paces = optimiser.paces({name: declared[name] for name in parameters})
    learners = [Learner(parameter, declared[name], paces[name]) for name, parameter in parameters.items()]
    return BUILDERS[optimiser.kind](optimiser, learners)


def averages_of(optimiser: Optimiser, built: torch.optim.Optimizer) -> Averages:
    """The weights that an optimiser evaluates with, where they are not those it trains."""
    return partial(schedule_free.averages, built) if optimiser.averages else none


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
    for key, value in tensors.items():
        name, _, field = key.rpartition("/")
        if field != TRAINED:
            parameter = parameters[name]
            # Moments, and torch's own counter, live beside their parameter; our counters stay on the CPU.
            optimiser.state[parameter][field] = value.clone() if field in COUNTERS else value.to(parameter.device)
