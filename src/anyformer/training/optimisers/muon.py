"""Muon: momentum made orthogonal (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982), stacks of experts in one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from anyformer.training.optimisers.adamw import AdamRule
from anyformer.training.optimisers.rules import ByRule, Learner, Rule, State
from anyformer.tuning import Muon
from anyformer.tuning.optimisers import STEP_SCALES

NUMBERS = {"bf16": torch.bfloat16, "fp32": torch.float32}
LEAST_NORM = 1e-7
"""A matrix of a smaller norm counts as one of this norm: a zero stays a zero."""


def orthogonal(x: Tensor, iterations: int, coefficients: tuple[float, float, float], dtype: torch.dtype) -> Tensor:
    """U p(S) V^T for every matrix U S V^T of a stack (..., O, I), p nearly 1: Newton and Schulz, in numbers of `dtype`.

    X <- a X + b (X X^T) X + c (X X^T)^2 X from X = x / |x|, on the side where X X^T is the smaller.
    """
    a, b, c = coefficients
    tall = x.shape[-2] > x.shape[-1]
    flat = x.to(dtype).reshape(-1, *x.shape[-2:])
    step = flat.mT if tall else flat
    step = step / step.norm(dim=(-2, -1), keepdim=True).clamp(min=LEAST_NORM)
    for _ in range(iterations):
        gram = step @ step.mT
        step = torch.baddbmm(step, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), step, beta=a)
    return (step.mT if tall else step).reshape(x.shape)


@dataclass(frozen=True)
class MuonRule:
    """m <- momentum m + (1 - momentum) g; w <- w - rate (scale(O, I) orthogonal(m) + decay w).

    Nesterov's has momentum m + (1 - momentum) g in the place of m.
    """

    elementwise: ClassVar[bool] = False

    momentum: float
    nesterov: bool
    iterations: int
    coefficients: tuple[float, float, float]
    dtype: torch.dtype
    scale: str

    def start(self, weight: Tensor) -> State:
        return {"momentum": torch.zeros_like(weight)}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        mean = state["momentum"].lerp_(gradient, 1 - self.momentum)
        ahead = gradient.lerp(mean, self.momentum) if self.nesterov else mean
        step = orthogonal(ahead, self.iterations, self.coefficients, self.dtype)
        rows, columns = weight.shape[-2:]
        weight.mul_(1 - rate * decay).add_(step, alpha=-rate * STEP_SCALES[self.scale](rows, columns))


def build(optimiser: Muon, learners: Sequence[Learner]) -> torch.optim.Optimizer:
    matrices = MuonRule(
        optimiser.momentum, optimiser.nesterov, optimiser.iterations, optimiser.coefficients, NUMBERS[optimiser.precision],
        optimiser.scale,
    )  # fmt: skip
    others = AdamRule(optimiser.others.betas, optimiser.others.eps)

    def rule_of(learner: Learner) -> Rule:
        return matrices if optimiser.orthogonalises(learner.weight) else others

    return ByRule(learners, rule_of, optimiser.learning_rate)
