"""Optimisers of a run: built from their descriptions, with their state as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.describe import UserError
from anyformer.model import Transformer
from anyformer.tuning import AdamW, Optimiser, Tuning

if TYPE_CHECKING:
    from anyformer.training.run import Run


def adamw(optimiser: AdamW, model: Transformer) -> torch.optim.Optimizer:
    """AdamW over all parameters of `model` that take a gradient, in two groups: with weight decay, and without."""
    declared = model.declared
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
"""Functions that build optimisers, by the kind of their descriptions; other optimisers are only priced."""


def build_optimiser(optimiser: Optimiser, model: Transformer) -> torch.optim.Optimizer:
    """The optimiser of a description, over the parameters of `model`."""
    return BUILDERS[optimiser.kind](optimiser, model)


def refuse_unbuilt(run: Run) -> None:
    """Raise `UserError`, before any work, if a run names an optimiser or tuning that is priced but not trained yet."""
    unbuilt = []
    if run.optimiser.kind not in BUILDERS:
        unbuilt.append(f"optimiser.kind = {run.optimiser.kind!r} (trained are: {', '.join(BUILDERS)})")
    if run.tuning.adapter is not None:
        unbuilt.append("tuning.adapter: adapters are priced but not trained yet")
    if run.tuning.frozen:
        unbuilt.append("tuning.frozen: frozen weights are priced but not trained yet")
    if run.tuning.base != Tuning().base:
        unbuilt.append(f"tuning.base = {run.tuning.base!r}: weights are trained in fp32")
    if unbuilt:
        raise UserError(
            f"this run can be priced but not trained yet: {'; '.join(unbuilt)}; leave them out to train, "
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
    """Restore the state that `state_tensors` returned."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        # The step counter stays where the optimiser keeps it; moments live beside their parameter.
        optimiser.state[parameter][field] = value.clone() if field == "step" else value.to(parameter.device)
