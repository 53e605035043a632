"""AdamW: torch's fused one, over all weights or as the rule of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from anyformer.tuning.optimisers.rule_module import Rule, State


@dataclass(frozen=True)
class AdamRule(Rule):
    """m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - rate (decay w + m' / (sqrt(v') + eps)), m' and v' unbiased."""

    elementwise: ClassVar[bool] = True

    betas: tuple[float, float]
    eps: float

    def start(self, weight: Tensor) -> State:
        step = torch.zeros((), device=weight.device)  # where the fused kernel looks for it
        return {"exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight), "step": step}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        adamw(
            [weight], [gradient], [state["exp_avg"]], [state["exp_avg_sq"]], [], [state["step"]],
            fused=True, amsgrad=False, beta1=self.betas[0], beta2=self.betas[1], lr=rate, weight_decay=decay,
            eps=self.eps, maximize=False,
        )  # fmt: skip

    def fused(self, groups: Sequence[dict[str, Any]]) -> torch.optim.Optimizer:
        """Torch's over all weights; every group has its rate."""
        return torch.optim.AdamW(groups, betas=self.betas, eps=self.eps, fused=True)
