"""Schedule-free AdamW (Defazio et al. 2024, arXiv 2405.15682): parameters are y, states z, and x follows from both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from anyformer.tuning.optimisers.rule_module import Rule, State, counted, counter


@dataclass(frozen=True)
class ScheduleFreeRule(Rule):
    """With y the weight and x = (y - (1 - b1) z) / b1:

    v <- b2 v + (1 - b2) g^2; z <- z - rate (g / (sqrt(v / (1 - b2^t)) + eps) + decay y); x <- (1 - c) x + c z;
    y <- (1 - b1) z + b1 x, with c = rate^2 / (the sum of rate^2 so far).
    """

    elementwise: ClassVar[bool] = True

    betas: tuple[float, float]
    eps: float

    def start(self, weight: Tensor) -> State:
        return {
            "z": weight.detach().clone(),
            "mean_square": torch.zeros_like(weight),
            "updates": counter(),
            "rates": counter(0.0, torch.float64),
        }

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        b1, b2 = self.betas
        square = state["mean_square"].mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        root = square.div(1 - b2 ** counted(state)).sqrt_().add_(self.eps)
        state["rates"] += rate**2
        c = rate**2 / float(state["rates"])
        direction = gradient.div(root).add_(weight, alpha=decay)
        z = state["z"]
        weight.sub_(z, alpha=1 - b1).mul_(1 - c)  # (1 - c) b1 x
        z.sub_(direction, alpha=rate)
        weight.add_(z, alpha=1 - b1 + b1 * c)

    def mean(self, weight: Tensor, state: State) -> Tensor:
        """x."""
        return weight.lerp(state["z"], 1 - 1 / self.betas[0])
