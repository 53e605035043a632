"""`Trainee`: a model that learns, with its optimiser and the weights to evaluate with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from anyformer.model import Transformer
from anyformer.training.averaging import Averages, averaged, restore_trained, trained_tensors
from anyformer.training.optimiser import averages_of, build_optimiser, load_state_tensors, state_tensors

if TYPE_CHECKING:
    from anyformer.training.run import Run


@dataclass(frozen=True)
class Trainee:
    """A model and everything that changes with its weights. `averages`: the weights to evaluate with and to save, where they
    are
    not those in training."""

    model: Transformer
    optimiser: torch.optim.Optimizer
    averages: Averages

    @classmethod
    def of(cls, model: Transformer, run: Run) -> Self:
        """The trainee before its first update."""
        optimiser = build_optimiser(run.optimiser, model)
        return cls(model, optimiser, averages_of(run.optimiser, optimiser))

    @contextmanager
    def evaluated(self) -> Iterator[dict[str, Tensor]]:
        """Within, the model has the weights to evaluate with; given is the state that an optimiser's file holds beside them."""
        with averaged(self.averages) as trained:
            yield {**state_tensors(self.optimiser, self.model), **trained_tensors(self.model, trained)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take the state that `evaluated` gave; the model has the weights that were saved with it."""
        load_state_tensors(self.optimiser, self.model, state)
        restore_trained(self.model, state)


@contextmanager
def all_evaluated(trainees: Mapping[str, Trainee]) -> Iterator[dict[str, dict[str, Tensor]]]:
    """`evaluated` of several trainees at once, by name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(trainee.evaluated()) for name, trainee in trainees.items()}
