"""Data-dependent gates of low rank: a matrix in two factors, between two activations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyformer.operations import Fill, Tally, Weight, matrix, total
from anyformer.parts.pointwise.activation import ACTIVATIONS, built_activation
from anyformer.parts.recurrence.recurrence import exact


@dataclass(frozen=True)
class LowRank:
    """outer(inner(x A) B + bias), A (D, P) and B (P, W): (B, T, D) -> (B, T, W), in fp32 at least behind B."""

    inner: str | None = None
    """Activation by name; None: none."""
    outer: str | None = None
    start: Fill | None = None
    """The initial value of the bias; None: there is none."""

    def build(self, width: int, rank: int, outputs: int) -> LowRankModule:
        return LowRankModule(self, width, rank, outputs)

    def cost(self, width: int, rank: int, outputs: int, rows: int) -> Tally:
        """Weights and work for `rows` rows; processes divide the W outputs."""
        parts = matrix("down", width, rank, rows, role="replicate") + matrix("up", rank, outputs, rows, role="column")
        if self.start is not None:
            parts += Tally({"bias": Weight((outputs,), "column", self.start)})
        activations = {"inner": (self.inner, rank), "outer": (self.outer, outputs)}
        return parts + total(
            {name: ACTIVATIONS[each].cost(features, rows) for name, (each, features) in activations.items() if each is not None}
        )


class LowRankModule(nn.Module):
    """(B, T, D) -> (B, T, W)."""

    def __init__(self, part: LowRank, width: int, rank: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        self.bias = None if part.start is None else nn.Parameter(torch.empty(outputs))
        self.inner, self.outer = built_activation(part.inner, rank), built_activation(part.outer, outputs)

    def forward(self, x_BTD: Tensor) -> Tensor:
        y = exact(self.up(self.inner(self.down(x_BTD))))
        return self.outer(y if self.bias is None else y + exact(self.bias))  # type: ignore[no-any-return]
