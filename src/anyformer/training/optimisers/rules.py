"""The optimiser of this package: every weight changes by the rule of its group, in the order of the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.model.divided import copy_in, is_divided, local, part, whole
from anyformer.tuning import Pace
from anyformer.tuning.optimisers.rule_module import Rule, State


@dataclass(frozen=True)
class Learner:
    """A parameter that learns: its rule, its rate and its decay."""

    parameter: nn.Parameter
    rule: Rule
    pace: Pace


def groups_of(learners: Iterable[Learner], peak: float) -> list[dict[str, Any]]:
    """Parameter groups of torch: weights of an equal rule and an equal pace, in the order of the model.

    `factor` is the rate of a group as a multiple of `peak`: an update sets `lr` to the run's rate times the factor.
    """
    members: dict[tuple[Rule, Pace], list[nn.Parameter]] = {}
    for learner in learners:
        members.setdefault((learner.rule, learner.pace), []).append(learner.parameter)
    return [
        {"params": each, "rule": rule, "lr": pace.rate, "factor": pace.rate / peak, "weight_decay": pace.decay}
        for (rule, pace), each in members.items()
    ]


class ByRule(torch.optim.Optimizer):
    """Changes every parameter that has a gradient by the rule of its group."""

    def __init__(self, groups: Iterable[dict[str, Any]]) -> None:
        super().__init__(groups, {})

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
