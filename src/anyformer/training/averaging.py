"""Weights to evaluate with that are not those in training: means over the updates, of schedule-free optimisers and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from anyformer.checkpoint import copy_stored
from anyformer.model.divided import is_divided, local

Averages = Callable[[], Mapping[nn.Parameter, Tensor]]
"""The weights to evaluate with, of the parameters where they differ from those in training; as they are now."""

TRAINED = "trained"
"""The name, beside an optimiser's state, of a weight in training where a checkpoint's own is a mean."""


def none() -> Mapping[nn.Parameter, Tensor]:
    """The averages where the weights in training are those to evaluate with."""
    return {}


def put(weights: Mapping[nn.Parameter, Tensor]) -> dict[nn.Parameter, Tensor]:
    """Give parameters other values, and return those they had: the tensors themselves, nothing is rounded; only parameters that
    are divided among processes are copied."""
    before: dict[nn.Parameter, Tensor] = {}
    for parameter, value in weights.items():
        if is_divided(parameter.data):
            # What gathers its parts reads the memory that they were in when the model was divided.
            before[parameter] = parameter.detach().clone()
            local(parameter.detach()).copy_(local(value.detach()))
        else:
            before[parameter], parameter.data = parameter.data, value
    return before


@contextmanager
def averaged(averages: Averages) -> Iterator[Mapping[nn.Parameter, Tensor]]:
    """Within, the parameters have the weights to evaluate with; given are the weights in training, which they have again
    afterwards."""
    trained = put(averages())
    try:
        yield trained
    finally:
        put(trained)


def trained_tensors(model: nn.Module, trained: Mapping[nn.Parameter, Tensor]) -> dict[str, Tensor]:
    """The weights in training by name, for a checkpoint whose model has the averaged ones."""
    return {f"{name}/{TRAINED}": trained[parameter] for name, parameter in model.named_parameters() if parameter in trained}


def restore_trained(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put the weights in training back that `trained_tensors` returned, among other tensors."""
    for name, parameter in model.named_parameters():
        if (key := f"{name}/{TRAINED}") in tensors:
            copy_stored(tensors, key, parameter)
