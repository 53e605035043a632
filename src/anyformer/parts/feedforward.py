"""Feed-forward networks, gated or not, and their activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from anyformer.describe import Choice
from anyformer.parts.context import Context
from anyformer.parts.noise import Dropout
from anyformer.parts.sublayer import SublayerValue
from anyformer.plan import Plan
from anyformer.tally import Shape, Tally, matrix

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "relu": F.relu,
        "relu_squared": lambda x: F.relu(x).square(),
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
    }
)
"""Name -> elementwise function. To add one, add a line."""

Projection = Literal["gate", "up", "down"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "up", "down")


class FeedForward(SublayerValue):
    """Two or three projections around a nonlinearity, position by position.

    Plain: act(x W_up) W_down (arXiv 1706.03762). Gated: (act(x W_gate) * (x W_up)) W_down (Shazeer 2020, arXiv 2002.05202:
    `silu` is SwiGLU, `gelu` GEGLU, `relu` ReGLU). W_gate, W_up: (D, F), W_down: (F, D). The papers' d_ff is F;
    W_1 is gate or up, V is up, W_2 is down.
    """

    kind: Literal["feedforward"] = "feedforward"
    width: Annotated[int, Field(ge=1)]
    """F."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "silu"
    gated: bool = True
    bias: tuple[Projection, ...] = ()
    """Projections that add a bias."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the F features dropped in training, after the activation."""

    @field_validator("bias")
    @classmethod
    def _in_order(cls, names: tuple[Projection, ...]) -> tuple[Projection, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"names a projection twice: {list(names)}")
        return tuple(name for name in PROJECTIONS if name in names)

    @model_validator(mode="after")
    def _has_its_gate(self) -> FeedForward:
        if "gate" in self.bias and not self.gated:
            raise ValueError("a bias on 'gate' needs gated = true")
        return self

    def build(self, width: int, plan: Plan, name: str) -> FeedForwardModule:
        return FeedForwardModule(self, width, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows = shape.batch * shape.length
        parts = matrix("up", width, self.width, rows, role="column", bias="up" in self.bias)
        if self.gated:
            parts = matrix("gate", width, self.width, rows, role="column", bias="gate" in self.bias) + parts
        return parts + matrix("down", self.width, width, rows, role="row", bias="down" in self.bias, fill="residual")


class FeedForwardModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, ffn: FeedForward, width: int, name: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[ffn.activation]
        self.gate = nn.Linear(width, ffn.width, bias="gate" in ffn.bias) if ffn.gated else None
        self.up = nn.Linear(width, ffn.width, bias="up" in ffn.bias)
        self.down = nn.Linear(ffn.width, width, bias="down" in ffn.bias)
        self.dropout = Dropout(ffn.dropout, f"{name}.dropout")
        self._name = ffn.activation

    def extra_repr(self) -> str:
        return f"activation={self._name}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        up_BTF = self.up(x_BTD)
        h_BTF = self.activation(up_BTF) if self.gate is None else self.activation(self.gate(x_BTD)) * up_BTF
        return self.down(self.dropout(h_BTF, context.noise))  # type: ignore[no-any-return]
