"""The module of feed-forward networks, gated or not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.noise import Dropout
from anyformer.parts.feedforward.feedforward import FeedForward, Projection
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.pointwise.grouped_module import projection


class FeedForwardModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, ffn: FeedForward, width: int, name: str) -> None:
        super().__init__()
        self.ffn = ffn
        self.activation = built_activation(ffn.activation, ffn.width)
        self.gate = _linear(ffn, "gate", width, ffn.width) if ffn.gated else None
        self.up = _linear(ffn, "up", width, ffn.width)
        self.sub_norm = ffn.sub_norm.build(ffn.width) if ffn.sub_norm else nn.Identity()
        self.down = _linear(ffn, "down", ffn.width, width)
        self.dropout = Dropout(ffn.dropout, f"{name}.dropout", dimension=2)
        self.lora = ffn.lora.module(width, dict.fromkeys(ffn.projections[:-1], ffn.width)) if ffn.lora else None
        for name in () if ffn.gains is None else ffn.projections[:-1]:
            self.register_parameter(f"{name}_gain", nn.Parameter(torch.empty(ffn.width)))

    def extra_repr(self) -> str:
        return f"activation={self.ffn.activation}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        gate_BTF, up_BTF = None if self.gate is None else self.gate(x_BTD), self.up(x_BTD)
        if self.lora is not None:
            *of_gate, of_up = self.lora(x_BTD, context.turn)
            gate_BTF, up_BTF = None if gate_BTF is None else gate_BTF + of_gate[0], up_BTF + of_up
        if (gains := self.ffn.gains) is not None:
            up_BTF = up_BTF * gains.taken(self.get_parameter("up_gain")).to(up_BTF.dtype)
            if gate_BTF is not None:
                gate_BTF = gate_BTF * gains.taken(self.get_parameter("gate_gain")).to(gate_BTF.dtype)
        if (sparse := self.ffn.sparse) is not None:
            gate_BTF, up_BTF = (None, sparse.kept(up_BTF)) if gate_BTF is None else (sparse.kept(gate_BTF), up_BTF)
        gate_BTF, up_BTF = None if gate_BTF is None else context.see("gate", gate_BTF), context.see("up", up_BTF)
        h_BTF = self.dropout(context.see("hidden", self.ffn.between(self.activation, gate_BTF, up_BTF)), context.noise)
        return self.down(self.sub_norm(h_BTF))  # type: ignore[no-any-return]


def _linear(ffn: FeedForward, name: Projection, inputs: int, outputs: int) -> nn.Module:
    return projection(inputs, outputs, bias=name in ffn.bias, groups=ffn.in_groups(name))
