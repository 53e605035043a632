"""Optimisers of a run: the modules of their descriptions, and their state as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model import Transformer
from anyformer.operations import Shape
from anyformer.tuning import AdamW, Optimiser, Tuning

if TYPE_CHECKING:
    from anyformer.training.run import Run


def adamw(optimiser: AdamW, model: Transformer) -> torch.optim.Optimizer:
    """AdamW over all parameters of `model` that take a gradient, in two groups: those that decay, and the others."""
    declared = model.architecture.cost(Shape()).weights
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[declared[name].decays].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": group, "weight_decay": optimiser.weight_decay if decays else 0.0}
            for decays, group in groups.items()
            if group
        ],
        lr=optimiser.learning_rate,
        betas=optimiser.betas,
        eps=optimiser.eps,
        fused=True,
    )


BUILDERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {AdamW().kind: adamw}
"""The optimisers that are built, by the kind of their descriptions; all the others are priced only."""


def build_optimiser(optimiser: Optimiser, model: Transformer) -> torch.optim.Optimizer:
    """The module of a description, over the parameters of `model`."""
    return BUILDERS[optimiser.kind](optimiser, model)


def refuse_unbuilt(run: Run) -> None:
    """Raise `UserError` where a run names what is priced but not trained yet, before any work is done."""
    found = []
    if run.optimiser.kind not in BUILDERS:
        found.append(f"optimiser.kind = {run.optimiser.kind!r} (trained are: {', '.join(BUILDERS)})")
    if run.tuning.adapter is not None:
        found.append("tuning.adapter: adapters are priced but not trained yet")
    if run.tuning.frozen:
        found.append("tuning.frozen: frozen weights are priced but not trained yet")
    if run.tuning.base != Tuning().base:
        found.append(f"tuning.base = {run.tuning.base!r}: weights are trained in fp32")
    if found:
        raise UserError(
            f"this run can be priced but not trained yet: {'; '.join(found)}; leave them out to train, "
            "or price them with `anyformer plan NAME --finetune`"
        )


def state_tensors(optimiser: torch.optim.Optimizer, model: Transformer) -> dict[str, Tensor]:
    """The optimiser's state by parameter name: `decoder...weight/exp_avg` and so on; empty before the first update."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_state_tensors(optimiser: torch.optim.Optimizer, model: Transformer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `state_tensors` gave."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        # The step counter stays where the optimiser keeps it; moments live beside their parameter.
        optimiser.state[parameter][field] = value.clone() if field == "step" else value.to(parameter.device)
