"""Averages of weights over the updates: what is evaluated, sampled and exported in place of the last weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Registry, Value


class Averaging(Protocol):
    """Weights for evaluation beside those that learn."""

    def updated(self) -> None:
        """Take note of an update that was just made."""
        ...

    def evaluated(self) -> contextlib.AbstractContextManager[Mapping[str, Tensor]]:
        """Within, the model has the weights for evaluation; yields the weights that learn, by name. Afterwards the model has
        these again, to the bit."""
        ...

    def restore(self, learning: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint: the model has the weights for evaluation; `learning` are those that `evaluated` yielded."""
        ...


class Average(Value):
    """An average of the weights over the updates."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def of(self, model: nn.Module) -> Averaging:
        """The average of a model's weights that learn, from now on."""
        raise NotImplementedError


class EMA(Average):
    """Exponential moving average: e <- decay e + (1 - decay) w after each update, from the first weights on.

    Polyak & Juditsky 1992; as in Tarvainen & Valpola 2017, arXiv 1703.01780. It takes 4 bytes for each parameter that learns.
    Weights that a rule moves without a gradient, as running statistics, are not averaged.
    """

    kind: Literal["ema"] = "ema"
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Share of the average that stays at each update: it remembers about 1 / (1 - decay) updates."""

    def of(self, model: nn.Module) -> Averaging:
        return MovingAverage(model, self.decay)


class MovingAverage:
    """The exponential moving average of the parameters of `model` that take gradients."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._other = {name: parameter.detach().clone() for name, parameter in self._weights.items()}

    @torch.no_grad()
    def updated(self) -> None:
        """e <- e + (1 - decay) (w - e)."""
        for name, average in self._other.items():
            average.lerp_(self._weights[name].detach(), 1 - self.decay)

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[Mapping[str, Tensor]]:
        self._exchange()
        try:
            yield self._other
        finally:
            self._exchange()

    @torch.no_grad()
    def restore(self, learning: Mapping[str, Tensor]) -> None:
        for name, parameter in self._weights.items():
            self._other[name].copy_(parameter)
            parameter.copy_(learning[name])

    @torch.no_grad()
    def _exchange(self) -> None:
        """Weights and averages change places; both keep their tensors, which an optimiser and a compiled function hold."""
        for name, parameter in self._weights.items():
            value = parameter.detach().clone()
            parameter.copy_(self._other[name])
            self._other[name].copy_(value)
