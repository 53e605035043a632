"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from anyformer.tuning.optimisers.rule_module import Rule, State


@dataclass(frozen=True)
class DescentRule(Rule):
    """w <- w - rate (g + decay w)."""

    elementwise: ClassVar[bool] = True

    def start(self, weight: Tensor) -> State:
        return {}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        weight.mul_(1 - rate * decay).add_(gradient, alpha=-rate)


@dataclass(frozen=True)
class MomentumRule(Rule):
    """b <- momentum b + g; w <- w - rate (b + decay w), with g + momentum b in the place of b for Nesterov's."""

    elementwise: ClassVar[bool] = True

    momentum: float
    nesterov: bool

    def start(self, weight: Tensor) -> State:
        return {"momentum": torch.zeros_like(weight)}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        sum = state["momentum"].mul_(self.momentum).add_(gradient)
        step = gradient.add(sum, alpha=self.momentum) if self.nesterov else sum
        weight.mul_(1 - rate * decay).add_(step, alpha=-rate)
