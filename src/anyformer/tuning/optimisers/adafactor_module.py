"""Adafactor without momentum (Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 and 5).

Torch's own takes the experts of a stack for one weight, and lowers the rate to 1 / sqrt(t) whatever the schedule says.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.tuning.optimisers.rule_module import Rule, State, counted, counter


@dataclass(frozen=True)
class AdafactorRule(Rule):
    """w <- w - rate (max(least_size, rms(w)) u / max(1, rms(u) / clip) + decay w) with u = g / sqrt(v).

    v is the mean of g^2 + eps with weights 1 - t^-decay and t^-decay: of a matrix, the product of its means over each row and
    over each column, divided by the mean of all. `stacked`: dim 0 counts weights of their own, as experts.
    """

    decay: float
    clip: float
    least_size: float
    eps: float
    factored: bool
    stacked: bool

    def start(self, weight: Tensor) -> State:
        count = {"updates": counter()}
        if not self.factored:
            return {"mean_square": torch.zeros_like(weight), **count}
        rows, columns = weight.shape[:-1], (*weight.shape[:-2], weight.shape[-1])
        return {"row": weight.new_zeros(rows), "column": weight.new_zeros(columns), **count}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        fresh = counted(state) ** -self.decay
        square = gradient.square().add_(self.eps)
        if self.factored:
            row, column = state["row"].lerp_(square.mean(-1), fresh), state["column"].lerp_(square.mean(-2), fresh)
            root = (row / row.mean(-1, keepdim=True)).rsqrt_()[..., None] * column.rsqrt()[..., None, :]
        else:
            root = state["mean_square"].lerp_(square, fresh).rsqrt()
        step = root.mul_(gradient)
        step.div_((self._rms(step) / self.clip).clamp_(min=1))
        step.mul_(self._rms(weight).clamp_(min=self.least_size))
        weight.mul_(1 - rate * decay).sub_(step, alpha=rate)

    def _rms(self, x: Tensor) -> Tensor:
        """The root mean square of each weight, which divides it by broadcasting."""
        return x.square().mean(tuple(range(1 if self.stacked else 0, x.dim())), keepdim=True).sqrt_()
