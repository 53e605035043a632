"""Output gates: the mixed heads times a nonlinearity of the layer's input."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor, nn

from anyformer.describe import Choice, Count, Value
from anyformer.operations import Tally, matrix, total
from anyformer.parts.pointwise.activation import ACTIVATIONS


class Gate(Value):
    """mixed * act(x W_g), a gate per feature of every head, W_g (D, H * E), or one per head, W_g (D, H).

    Sigmoid gates by element: Qwen3-Next; by head: Step-3; softplus: Laguna; SiLU: gated delta nets; through `rank` features,
    W_g = W_down W_projection: Kimi Linear. (Qiu et al. 2025, arXiv 2505.06708.)
    """

    per: Literal["feature", "head"] = "feature"
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "sigmoid"
    bias: bool = False
    rank: Count | None = None

    def build(self, width: int, heads: int, head_width: int) -> GateModule:
        return GateModule(self, width, heads, head_width)

    def cost(self, width: int, heads: int, head_width: int, rows: int) -> Tally:
        outputs = self.outputs(heads, head_width)
        parts = matrix("projection", self.rank or width, outputs, rows, role="column", bias=self.bias)
        parts += total({"activation": ACTIVATIONS[self.activation].cost(outputs, rows, gated=True)})
        return matrix("down", width, self.rank, rows, role="replicate") + parts if self.rank else parts

    def outputs(self, heads: int, head_width: int) -> int:
        """The number of gates of a token."""
        return heads * (head_width if self.per == "feature" else 1)


class GateModule(nn.Module):
    """(B, T, D) and (B, T, H, E) -> (B, T, H, E)."""

    def __init__(self, gate: Gate, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        outputs = gate.outputs(heads, head_width)
        self.activation = ACTIVATIONS[gate.activation].build(outputs)
        self.heads = heads
        self.down = nn.Linear(width, gate.rank, bias=False) if gate.rank else nn.Identity()
        self.projection = nn.Linear(gate.rank or width, outputs, bias=gate.bias)

    def forward(self, x_BTD: Tensor, mixed_BTHE: Tensor) -> Tensor:
        gate: Tensor = self.activation(self.projection(self.down(x_BTD)))
        return mixed_BTHE * gate.view(*gate.shape[:-1], self.heads, -1).to(mixed_BTHE.dtype)
