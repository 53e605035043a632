"""DoRA: a frozen matrix whose rows' directions are changed by a low-rank matrix, and whose rows' lengths learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning.adapter import DOWN, MAGNITUDE, UP, AdaptedLinear, LowRankAdapter


class Dora(LowRankAdapter):
    """y = x (m V / |V|)^T with V = W + s B A and |V| the length of each row (outputs,), m (outputs,) learnt from |W| on.

    As in the paper's section 4.3 no gradient goes through |V|. Liu et al. 2024, arXiv 2402.09353: the paper has inputs as
    rows, so its lengths are those of columns.
    """

    kind: Literal["dora"] = "dora"

    def beside(self, weight: Weight) -> dict[str, Weight]:
        """A, B and the length of each row: r (I + O) + O numbers."""
        length = Weight(weight.shape[:1], "replicate", "ones", copies=weight.copies)
        return super().beside(weight) | {MAGNITUDE: length}

    def linear(self, frozen: nn.Linear) -> AdaptedLinear:
        return DoraLinear(frozen, self.beside(Weight(tuple(frozen.weight.shape), "replicate", "matrix")), self.scale)

    def matrix(self, weight: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """m V / |V|."""
        whole = weight + self.scale * (own[UP] @ own[DOWN])
        factor: Tensor = own[MAGNITUDE] / lengths_of_rows(whole)
        return factor[:, None] * whole


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
