"""Lion: steps along a sign (Chen et al. 2023, arXiv 2302.06675, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from anyformer.tuning.optimisers.rule_module import Rule, State


@dataclass(frozen=True)
class LionRule(Rule):
    """w <- w - rate (sign(b1 m + (1 - b1) g) + decay w), then m <- b2 m + (1 - b2) g."""

    elementwise: ClassVar[bool] = True

    betas: tuple[float, float]

    def start(self, weight: Tensor) -> State:
        return {"momentum": torch.zeros_like(weight)}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        mean = state["momentum"]
        direction = mean.lerp(gradient, 1 - self.betas[0]).sign_()
        weight.mul_(1 - rate * decay).add_(direction, alpha=-rate)
        mean.lerp_(gradient, 1 - self.betas[1])
