"""The module of DoRA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning.adapter import MAGNITUDE
from anyformer.tuning.adapter_module import AdaptedLinear


def lengths_of_rows(matrix: Tensor) -> Tensor:
    """(O, I) -> (O,)."""
    lengths: Tensor = torch.linalg.vector_norm(matrix, dim=1)
    return lengths


def lengths_of_divided_rows(part: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Of some columns (O, I / processes), the lengths (O,) of the rows with all columns; `total` adds over the processes."""
    return total(lengths_of_rows(part).square()).sqrt()


class DoraLinear(AdaptedLinear):
    """(..., I) -> (..., O)."""

    adapter_down: Tensor
    adapter_up: Tensor
    adapter_magnitude: Tensor

    def __init__(self, frozen: nn.Linear, own: Mapping[str, Weight], scale: float) -> None:
        super().__init__(frozen, own)
        self.scale = scale
        self.lengths: Callable[[Tensor], Tensor] = lengths_of_rows

    def divide_inputs(self, total: Callable[[Tensor], Tensor]) -> None:
        self.lengths = partial(lengths_of_divided_rows, total=total)

    def first_values(self, weight: Tensor) -> dict[str, Tensor]:
        """m = |W|."""
        return {MAGNITUDE: lengths_of_rows(weight)}

    def forward(self, input: Tensor) -> Tensor:
        with torch.no_grad():
            whole = self.weight + self.scale * (self.adapter_up @ self.adapter_down)
            lengths = self.lengths(whole)
        factor = self.adapter_magnitude / lengths
        v = F.linear(input, self.weight) + self.scale * F.linear(
            F.linear(self.dropout(input), self.adapter_down), self.adapter_up
        )
        y: Tensor = v * factor.to(v.dtype)
        return y if self.bias is None else y + self.bias.to(y.dtype)
