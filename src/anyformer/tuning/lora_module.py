"""The module of LoRA."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning.adapter_module import AdaptedLinear


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
