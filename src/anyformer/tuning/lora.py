"""LoRA: a low-rank matrix that learns beside a frozen one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning.adapter import DOWN, UP, AdaptedLinear, LowRankAdapter


class Lora(LowRankAdapter):
    """y = x W^T + s x A^T B^T with W frozen, A (rank, inputs), B (outputs, rank), s = alpha / rank.

    B starts at zero, so the first outputs are those of W. Hu et al. 2021, arXiv 2106.09685; the paper's r is `rank`.
    """

    follows: ClassVar[bool] = False
    kind: Literal["lora"] = "lora"

    def linear(self, frozen: nn.Linear) -> AdaptedLinear:
        return LoraLinear(frozen, self.beside(Weight(tuple(frozen.weight.shape), "replicate", "matrix")), self.scale)

    def matrix(self, weight: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """W + s B A."""
        return weight + self.scale * (own[UP] @ own[DOWN])


class LoraLinear(AdaptedLinear):
    """(..., I) -> (..., O)."""

    adapter_down: Tensor
    adapter_up: Tensor

    def __init__(self, frozen: nn.Linear, own: Mapping[str, Weight], scale: float) -> None:
        super().__init__(frozen, own)
        self.scale = scale

    def forward(self, input: Tensor) -> Tensor:
        y = F.linear(input, self.weight, self.bias)
        return y + self.scale * F.linear(F.linear(self.dropout(input), self.adapter_down), self.adapter_up)
