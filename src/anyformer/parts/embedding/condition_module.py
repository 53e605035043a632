"""The module of a stack's condition."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.embedding.condition import Condition
from anyformer.parts.lookup import rows_of


class ConditionModule(nn.Module):
    """Times and classes of B rows, (B,) each -> (B, D); without times 0, without classes the null class."""

    def __init__(self, condition: Condition, width: int) -> None:
        super().__init__()
        self.condition = condition
        self.input = nn.Linear(condition.frequencies, width)
        self.output = nn.Linear(width, width)
        self.classes = None if condition.classes is None else nn.Parameter(torch.empty(condition.classes + 1, width))

    def extra_repr(self) -> str:
        return repr(self.condition)

    def forward(self, batch: int, times_B: Tensor | None, classes_B: Tensor | None) -> Tensor:
        weight = self.input.weight
        if times_B is None:
            times_B = torch.zeros(batch, device=weight.device)
        waves = time_waves(times_B.float() * self.condition.time_scale, self.condition.frequencies, self.condition.theta)
        condition_BD: Tensor = self.output(F.silu(self.input(waves.to(weight.dtype))))
        if self.classes is not None:
            if classes_B is None:
                classes_B = torch.full((batch,), len(self.classes) - 1, device=weight.device)
            condition_BD = condition_BD + rows_of(self.classes, classes_B, "classes").to(condition_BD.dtype)
        return condition_BD


def time_waves(times_B: Tensor, frequencies: int, theta: float) -> Tensor:
    """(B,) -> (B, I) in fp32: cosines, then sines, of times at wave lengths from 2 pi to nearly 2 pi theta."""
    half = frequencies // 2
    rates = theta ** (-torch.arange(half, device=times_B.device, dtype=torch.float32) / half)
    angles = times_B[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], 1)
