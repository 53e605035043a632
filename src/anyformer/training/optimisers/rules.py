"""The optimiser of this package: every weight changes by the rule of its group, in the order of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning import Pace

State = dict[str, Tensor]
"""The state of one weight by name: tensors alone, so that a checkpoint holds all of it."""

COUNTERS = ("updates", "rates", "roundings")
"""Names of single numbers in a state, which stay on the CPU, where they are read."""


class Rule(Protocol):
    """How one weight changes; equal rules are one group."""

    def start(self, weight: Tensor) -> State:
        """The state before the first update."""
        ...

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        """One update of the weight and its state, in place."""
        ...


@dataclass(frozen=True)
class Learner:
    """A parameter that learns: its declaration, its rate and its decay."""

    parameter: nn.Parameter
    weight: Weight
    pace: Pace


def grouped(learners: Iterable[Learner], of: Callable[[Learner], Any], peak: float) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Parameter groups of torch, with whatever `of` says of their members, of equal pace and in the order of the model.

    `factor` is the rate of a group as a multiple of `peak`: an update sets `lr` to the run's rate times the factor.
    """
    members: dict[tuple[Any, Pace], list[nn.Parameter]] = {}
    for learner in learners:
        members.setdefault((of(learner), learner.pace), []).append(learner.parameter)
    for (what, pace), parameters in members.items():
        yield what, {"params": parameters, "lr": pace.rate, "factor": pace.rate / peak, "weight_decay": pace.decay}


class ByRule(torch.optim.Optimizer):
    """Changes every parameter that has a gradient by the rule of its group."""

    def __init__(self, learners: Iterable[Learner], rule_of: Callable[[Learner], Rule], peak: float) -> None:
        super().__init__([{**group, "rule": rule} for rule, group in grouped(learners, rule_of, peak)], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None, "gradients are computed by the caller"
        for group in self.param_groups:
            rule: Rule = group["rule"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if not state:
                        state.update(rule.start(parameter))
                    rule.change(parameter, parameter.grad, state, group["lr"], group["weight_decay"])


def counter(number: float = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    """A single number of a state."""
    return torch.tensor(number, dtype=dtype)


def counted(state: State) -> int:
    """The number of this update, from 1."""
    state["updates"] += 1
    return int(state["updates"])
