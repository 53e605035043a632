"""Averages of the weights over the updates, as values of a run: evaluated and exported in place of the last weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Registry, Value


class RunningAverage(Protocol):
    """The average of one model's weights that learn, as its training goes on."""

    def updated(self) -> None:
        """Take note of an update that was just made."""
        ...

    def weights(self) -> Mapping[nn.Parameter, Tensor]:
        """The averages as they are now, of every weight that learns."""
        ...

    def restore(self) -> None:
        """Go on from averages that the model's parameters hold, as after a checkpoint is read."""
        ...


class Average(Value):
    """An average of the weights over the updates."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def of(self, model: nn.Module) -> RunningAverage:
        """The average of a model's weights that learn, from now on."""
        raise NotImplementedError


class EMA(Average):
    """Exponential moving average: e <- decay e + (1 - decay) w after every update, from the first weights on.

    As in Tarvainen & Valpola 2017, arXiv 1703.01780. It takes 4 bytes per parameter that learns. Weights that a rule
    moves without a gradient, as running statistics, are not averaged.
    """

    kind: Literal["ema"] = "ema"
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Share of the average that stays per update: it remembers about 1 / (1 - decay) updates."""

    def of(self, model: nn.Module) -> RunningAverage:
        return MovingAverage(model, self.decay)


class MovingAverage:
    """The exponential moving average of the parameters of `model` that take gradients."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._averages = {parameter: parameter.detach().clone() for parameter in learning}

    @torch.no_grad()
    def updated(self) -> None:
        """e <- e + (1 - decay) (w - e)."""
        for parameter, average in self._averages.items():
            average.lerp_(parameter.detach(), 1 - self.decay)

    def weights(self) -> Mapping[nn.Parameter, Tensor]:
        return self._averages

    @torch.no_grad()
    def restore(self) -> None:
        for parameter, average in self._averages.items():
            average.copy_(parameter)
