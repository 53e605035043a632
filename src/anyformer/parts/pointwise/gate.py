"""Output gates: the mixed heads times a nonlinearity of what entered the layer."""

from __future__ import annotations

from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.parts.pointwise.activation import keeps_input, keeps_output
from anyformer.tally import Tally, matrix
from anyformer.tape import Held, Tape


class Gate(Value):
    """mixed * act(x W_g), a gate per feature of every head, W_g (D, H * E), or one per head, W_g (D, H).

    Sigmoid gates by element: Qwen3-Next; by head: Step-3; softplus: Laguna; SiLU: gated delta nets; through `rank` features,
    W_g = W_down W_projection: Kimi Linear. (Qiu et al. 2025, arXiv 2505.06708.)
    """

    per: Literal["feature", "head"] = "feature"
    activation: Literal["sigmoid", "softplus", "silu"] = "sigmoid"
    bias: bool = False
    rank: Annotated[int, Field(ge=1)] | None = None

    def build(self, width: int, heads: int, head_width: int) -> GateModule:
        return GateModule(self, width, heads, head_width)

    def cost(self, width: int, heads: int, head_width: int, rows: int) -> Tally:
        outputs = heads * (head_width if self.per == "feature" else 1)
        projection = matrix("projection", self.rank or width, outputs, rows, role="column", bias=self.bias)
        return matrix("down", width, self.rank, rows, role="replicate") + projection if self.rank else projection

    def keeps(self, tape: Tape, x: Held, mixed: Held, width: int, heads: int, head_width: int) -> Held:
        """What the nonlinearity keeps, the gate and what it multiplies."""
        outputs = heads * (head_width if self.per == "feature" else 1)
        read = tape.linear("down", x, width, self.rank) if self.rank else x
        projected = tape.linear("projection", read, self.rank or width, outputs)
        act = keeps_output if self.activation == "sigmoid" else keeps_input
        return tape.times("gated", mixed, act(tape, projected))


ACTIVATIONS = {"sigmoid": F.sigmoid, "softplus": F.softplus, "silu": F.silu}


class GateModule(nn.Module):
    """(B, T, D) and (B, T, H, E) -> (B, T, H, E)."""

    def __init__(self, gate: Gate, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[gate.activation]
        self.heads = heads
        self.down = nn.Linear(width, gate.rank, bias=False) if gate.rank else nn.Identity()
        self.projection = nn.Linear(gate.rank or width, heads * (head_width if gate.per == "feature" else 1), bias=gate.bias)

    def forward(self, x_BTD: Tensor, mixed_BTHE: Tensor) -> Tensor:
        gate = self.activation(self.projection(self.down(x_BTD)))
        return mixed_BTHE * gate.view(*gate.shape[:-1], self.heads, -1).to(mixed_BTHE.dtype)
