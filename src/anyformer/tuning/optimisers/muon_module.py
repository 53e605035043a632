"""Muon: momentum made orthogonal (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982), stacks of experts in one product."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.tuning.optimisers.muon import STEP_SCALES
from anyformer.tuning.optimisers.rule_module import Rule, State

NUMBERS = {"bf16": torch.bfloat16, "fp32": torch.float32}
LEAST_NORM = 1e-7
"""A matrix of a smaller norm counts as one of this norm: a zero stays a zero."""


def orthogonal(x: Tensor, iterations: int, coefficients: tuple[float, float, float], dtype: torch.dtype) -> Tensor:
    """U p(S) V^T for each matrix U S V^T of a stack (..., O, I), p nearly 1: Newton and Schulz, in numbers of `dtype`.

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
class MuonRule(Rule):
    """m <- momentum m + (1 - momentum) g; w <- w - rate (scale(O, I) orthogonal(m) + decay w).

    Nesterov's has momentum m + (1 - momentum) g in the place of m.
    """

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
