"""DoRA: a frozen matrix whose rows' directions are changed by a low-rank matrix, and whose rows' lengths learn."""

from __future__ import annotations

from collections.abc import Mapping
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
        factor: Tensor = own[MAGNITUDE] / torch.linalg.vector_norm(whole, dim=1)
        return factor[:, None] * whole


class DoraLinear(AdaptedLinear):
    """(..., I) -> (..., O)."""

    adapter_down: Tensor
    adapter_up: Tensor
    adapter_magnitude: Tensor

    def __init__(self, frozen: nn.Linear, own: Mapping[str, Weight], scale: float) -> None:
        super().__init__(frozen, own)
        self.scale = scale

    @torch.no_grad()
    def begin(self) -> None:
        """m = |W|."""
        self.adapter_magnitude.copy_(torch.linalg.vector_norm(self.weight, dim=1))

    def forward(self, input: Tensor) -> Tensor:
        with torch.no_grad():
            whole = self.weight + self.scale * (self.adapter_up @ self.adapter_down)
            lengths = torch.linalg.vector_norm(whole, dim=1)
        factor = self.adapter_magnitude / lengths
        v = F.linear(input, self.weight) + self.scale * F.linear(
            F.linear(self.dropout(input), self.adapter_down), self.adapter_up
        )
        y: Tensor = v * factor.to(v.dtype)
        return y if self.bias is None else y + self.bias.to(y.dtype)
