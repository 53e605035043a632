"""AdamW: its description, its parameter groups, and its state as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import Value
from anyformer.model import Transformer
from anyformer.tally import Shape

Beta = Annotated[float, Field(ge=0, lt=1)]


class AdamW(Value):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101) of matrices, not of gains and biases."""

    kind: Literal["adamw"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Peak rate; the schedule scales it."""
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    """Decay of the running means of the gradient and of its square."""
    eps: Annotated[float, Field(gt=0)] = 1e-8
    """Added to the root of the mean square, so that nothing is divided by 0."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    """Share of a weight that goes at each step, times the learning rate."""

    def build(self, model: Transformer) -> torch.optim.AdamW:
        """An optimiser over all parameters of `model` that take a gradient, in two groups."""
        declared = model.architecture.cost(Shape()).weights
        groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups[declared[name].decays].append(parameter)
        return torch.optim.AdamW(
            [
                {"params": group, "weight_decay": self.weight_decay if decays else 0.0}
                for decays, group in groups.items()
                if group
            ],
            lr=self.learning_rate,
            betas=self.betas,
            eps=self.eps,
            fused=True,
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
