"""What learned factors of queries and of an output gate's input run."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.scaled_heads import GainedGate
from anyformer.parts.pointwise.gate_module import GateModule


def empty_gain(features: int) -> nn.Parameter:
    """The weight of a gain, to be filled."""
    return nn.Parameter(torch.empty(features))


class GainedGateModule(GateModule):
    """(B, T, D) and (B, T, H, U) -> (B, T, H, U)."""

    def __init__(self, gate: GainedGate, width: int, heads: int, head_width: int) -> None:
        super().__init__(gate, width, heads, head_width)
        self.scaled, self.gain = gate.gain, empty_gain(gate.outputs(heads, head_width))

    def logits(self, x_BTD: Tensor) -> Tensor:
        gate = super().logits(x_BTD)
        return gate * self.scaled.taken(self.gain).square().to(gate.dtype)
