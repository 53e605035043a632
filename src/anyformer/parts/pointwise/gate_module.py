"""The module of output gates."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.pointwise.gate import Gate


class GateModule(nn.Module):
    """(B, T, D) and (B, T, H, E) -> (B, T, H, E)."""

    def __init__(self, gate: Gate, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        outputs = gate.outputs(heads, head_width)
        self.activation = built_activation(gate.activation, outputs)
        self.heads = heads
        self.down = nn.Linear(width, gate.rank, bias=False) if gate.rank else nn.Identity()
        self.projection = nn.Linear(gate.rank or width, outputs, bias=gate.bias is True)
        self.bias = nn.Parameter(torch.empty(heads)) if gate.bias == "head" else None

    def forward(self, x_BTD: Tensor, mixed_BTHE: Tensor) -> Tensor:
        return mixed_BTHE * self._of_heads(self.activation(self.logits(x_BTD))).to(mixed_BTHE.dtype)

    def logits(self, x_BTD: Tensor) -> Tensor:
        """What the activation reads: (B, T, H * E), or (B, T, H)."""
        gate: Tensor = self.projection(self.down(x_BTD))
        if self.bias is None:
            return gate
        return (self._of_heads(gate) + self.bias.to(gate.dtype)[:, None]).flatten(-2)

    def _of_heads(self, gate: Tensor) -> Tensor:
        """(B, T, H * E) -> (B, T, H, E), or (B, T, H) -> (B, T, H, 1)."""
        return gate.view(*gate.shape[:-1], self.heads, -1)
