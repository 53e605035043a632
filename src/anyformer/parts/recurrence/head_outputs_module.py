"""The base module of mixers whose heads are normed, gated and projected."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate


class HeadOutputs(nn.Module):
    """(B, T, H, E) -> (B, T, D): gate(norm of each head) W_o."""

    gate: nn.Module | None

    def add_outputs(
        self, norm: Norm | None, gate: Gate | None, width: int, heads: int, features: int, *, bias: bool = False
    ) -> None:
        """The modules."""
        self.norm = norm.build(features) if norm else nn.Identity()
        self.gate = gate.module(width, heads, features) if gate else None
        self.output = nn.Linear(heads * features, width, bias=bias)

    def put_out(self, x_BTD: Tensor, mixed_BTHE: Tensor, context: Context) -> Tensor:
        """What the heads give of what they read; x: what the gate reads."""
        mixed_BTHE = self.norm(mixed_BTHE)
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return put_out(self.output, mixed_BTHE, context)
