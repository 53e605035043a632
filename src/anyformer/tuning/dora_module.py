"""The module of DoRA."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.operations import Weight
from anyformer.tuning.adapter_module import AdaptedLinear


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
