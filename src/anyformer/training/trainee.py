"""`Trainee`: a model that learns, with its optimiser and the weights to evaluate with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from anyformer.model.divided import local
from anyformer.model.narrow import histories
from anyformer.model.transformer import Transformer
from anyformer.precision.running import Running
from anyformer.training.adapting import Still
from anyformer.training.average import RunningAverage
from anyformer.training.averaging import Averages, averaged, none, restore_trained, trained_tensors
from anyformer.training.optimiser import averages_of, build_optimiser, load_state_tensors, state_tensors
from anyformer.tuning import Tuning

if TYPE_CHECKING:
    from anyformer.training.run import Run

UNHELD = Still({})
"""No weight is held."""


@dataclass(frozen=True)
class Trainee:
    """A model and everything that changes with its weights.

    `still`: weights that no update may move; `average`: the run's average of weights, None without one; `averages`: the
    weights to evaluate with and to save, where they are not those in training.
    """

    model: Transformer
    optimiser: torch.optim.Optimizer
    still: Still = UNHELD
    average: RunningAverage | None = None
    averages: Averages = none

    @staticmethod
    def of(model: Transformer, run: Run, tuning: Tuning) -> Trainee:
        """The trainee before its first update; `tuning`: what of the model learns."""
        optimiser = build_optimiser(run.optimiser, model, run.plan.precision, run.seed)
        average = None if run.average is None else run.average.of(model)
        averages = averages_of(run.optimiser, optimiser) if average is None else average.weights
        return Trainee(model, optimiser, Still.of(model, tuning), average, averages)

    @property
    def learning(self) -> list[nn.Parameter]:
        """The weights that the optimiser moves."""
        return [weight for group in self.optimiser.param_groups for weight in group["params"]]

    @cached_property
    def running(self) -> tuple[Running, ...]:
        """Scales of the updates before, of the linear maps that have such: looked for once, for every update asks."""
        return tuple(running for _, running in histories(self.model))

    def begin(self) -> None:
        """Take note of an update that begins."""
        for running in self.running:
            running.begin()

    def step(self, rate: float) -> None:
        """Let the optimiser move the weights at a rate, and free their gradients."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def updated(self) -> None:
        """Take note of an update that was just made."""
        self.still.put_back(self.model)
        if self.average is not None:
            self.average.updated()
        for running in self.running:
            running.end()

    @property
    def kept(self) -> int:
        """Bytes of tensors that stay between updates beside weights and moments."""
        averages = {} if self.average is None else self.average.weights()
        return sum(local(x).nbytes for x in (*averages.values(), *self.still.held.values()))

    @contextmanager
    def evaluated(self) -> Iterator[dict[str, Tensor]]:
        """Within, the model has the weights to evaluate with; given is the state that an optimiser's file holds beside them."""
        with averaged(self.averages) as trained:
            yield {**state_tensors(self.optimiser, self.model), **trained_tensors(self.model, trained)}

    def restored(self, state: Mapping[str, Tensor], tuning: Tuning) -> Trainee:
        """The trainee with the state that `evaluated` gave; its model has the weights that were saved with it already."""
        if self.average is not None:
            self.average.restore()
        self.optimiser.state.clear()  # of later updates, where training goes back
        load_state_tensors(self.optimiser, self.model, state)
        restore_trained(self.model, state)
        return replace(self, still=Still.of(self.model, tuning))


@contextmanager
def all_evaluated(trainees: Mapping[str, Trainee]) -> Iterator[dict[str, dict[str, Tensor]]]:
    """`evaluated` of several trainees at once, by name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(trainee.evaluated()) for name, trainee in trainees.items()}
