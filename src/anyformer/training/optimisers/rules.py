"""The optimiser of this package: every weight changes by the rule of its group, in the order of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from anyformer.model.divided import copy_in, is_divided, local, part, whole
from anyformer.operations import Weight
from anyformer.tuning import Pace

State = dict[str, Tensor]
"""The state of one weight by name: tensors alone, so that a checkpoint holds all of it."""

COUNTERS = ("updates", "rates", "roundings")
"""Names of single numbers in a state, which stay on the CPU, where they are read."""


class Rule(Protocol):
    """How one weight changes; equal rules are one group. `elementwise`: each number by its own gradient and state alone, so
    that a process which holds a part of the weight can change it without the rest."""

    elementwise: ClassVar[bool]

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
                        state.update(start(rule, parameter))
                    change(rule, parameter, state, group["lr"], group["weight_decay"])


def start(rule: Rule, weight: Tensor) -> State:
    """The state before the first update; of a weight that is divided among processes, what is of its shape is divided too."""
    if rule.elementwise:
        return rule.start(weight)
    return {name: divided(value, weight) for name, value in rule.start(whole(weight)).items()}


def divided(value: Tensor, weight: Tensor) -> Tensor:
    """A tensor of a state, divided as its weight is if it has its shape; all others are whole in every process."""
    return part(value, weight) if value.shape == weight.shape else value


def change(rule: Rule, weight: nn.Parameter, state: State, rate: float, decay: float) -> None:
    """One update by a rule. One that is not elementwise has the whole weight in every process, which then keeps its part."""
    gradient = weight.grad
    assert gradient is not None, "only weights with a gradient change"
    if not is_divided(weight):
        rule.change(weight, gradient, state, rate, decay)
    elif rule.elementwise:
        rule.change(local(weight), local(gradient), {name: local(value) for name, value in state.items()}, rate, decay)
    else:
        full, every = whole(weight), {name: whole(value) for name, value in state.items()}
        rule.change(full, whole(gradient), every, rate, decay)
        for target, values in [(weight, full), *((state[name], value) for name, value in every.items())]:
            if is_divided(target):
                copy_in(target, values)


def counter(number: float = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    """A single number of a state."""
    return torch.tensor(number, dtype=dtype)


def counted(state: State) -> int:
    """The number of this update, from 1."""
    state["updates"] += 1
    return int(state["updates"])
