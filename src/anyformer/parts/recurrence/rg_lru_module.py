"""The module of RG-LRU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.pointwise.grouped_module import GroupedLinear
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.rg_lru import GATES, RGLRU
from anyformer.parts.recurrence.scan import scan

_LEAST = 1e-12
"""The least 1 - a_t^2 under the root, whose gradient has no bound at 0."""


class RGLRUModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, lru: RGLRU, width: int) -> None:
        super().__init__()
        self.lru, W = lru, lru.channels
        self.gate = nn.Linear(width, W, bias="gate" in lru.bias)
        self.value = nn.Linear(width, W, bias="value" in lru.bias)
        self.convolution = lru.convolution.build(W) if lru.convolution else None
        self.input_gate, self.decay_gate = (GroupedLinear(W, W, lru.heads) for _ in GATES)
        self.decay = nn.Parameter(torch.empty(W))
        self.activation = built_activation(lru.activation, W)
        self.output = nn.Linear(W, width, bias="output" in lru.bias)

    def extra_repr(self) -> str:
        return f"channels={self.lru.channels}, heads={self.lru.heads}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        value_BTW = self.value(x_BTD)
        if self.convolution is not None:
            value_BTW = self.convolution(value_BTW, context, None if state is None else state.convolutions["value"])
        mixed_BTW = self.recur(context.see("value", value_BTW), context, state).to(x_BTD.dtype)
        gate_BTW = context.see("gate", self.gate(x_BTD))
        return self.output(context.see("hidden", mixed_BTW * self.activation(gate_BTW)))  # type: ignore[no-any-return]

    def recur(self, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The states in fp32 at least, (B, T, W), of convolved values."""
        opened, decayed = exact(self.input_gate(value)).sigmoid(), exact(self.decay_gate(value)).sigmoid()
        with exactly(value):
            log_decay = -self.lru.strength * decayed * nn.functional.softplus(exact(self.decay))
            kept = (-torch.expm1(2 * log_decay)).clamp(min=_LEAST).sqrt()
            first = (context.positions == 0)[..., None]
            write = exact(value) * opened * kept.masked_fill(first, 1)
            decay = log_decay.exp().masked_fill(first, 0)
            if context.valid is not None:
                # Padding writes nothing and decays nothing.
                padding = ~context.valid[..., None]
                write, decay = write.masked_fill(padding, 0), decay.masked_fill(padding, 1)
            if state is not None:
                entering = write[:, :1] + decay[:, :1] * state.sums.to(write.dtype)[:, None]
                write = torch.cat([entering, write[:, 1:]], 1)
            states_BTW = context.see("mixed", scan(decay[:, 1:], write))
            hold(states_BTW[:, -1], state, context)
            return states_BTW
