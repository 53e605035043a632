"""The module of RWKV-7."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.norms.layer_norm_module import of_each_head
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.recurrence.generalised_delta import generalised_delta
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import by_head, heads_first, split_heads, time_first
from anyformer.parts.recurrence.rwkv7 import GATES, LEFT, PROJECTIONS, RWKV7, SIDES, LowRank
from anyformer.parts.recurrence.short_convolution_module import previous
from anyformer.plan import Plan


class LowRankModule(nn.Module):
    """(B, T, D) -> (B, T, W)."""

    def __init__(self, part: LowRank, width: int, rank: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        self.bias = None if part.start is None else nn.Parameter(torch.empty(outputs))
        self.inner, self.outer = built_activation(part.inner, rank), built_activation(part.outer, outputs)

    def forward(self, x_BTD: Tensor) -> Tensor:
        y = exact(self.up(self.inner(self.down(x_BTD))))
        return self.outer(y if self.bias is None else y + exact(self.bias))  # type: ignore[no-any-return]


STRENGTH = math.exp(-0.5)
"""The largest rate of decay: no step keeps less than exp(-STRENGTH), 0.545, of a channel."""


class RWKV7Module(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, rwkv: RWKV7, width: int, plan: Plan) -> None:
        super().__init__()
        self.rwkv, self.chunk, W = rwkv, plan.chunk, rwkv.channels
        for side in SIDES:
            self.register_parameter(f"{side}_mix", nn.Parameter(torch.empty(width)))
        for name in PROJECTIONS:
            self.add_module(name, nn.Linear(width, W, bias=False))
        for name, rank in rwkv.ranks.items():
            self.add_module(name, LowRankModule(GATES[name], width, rank, W))
        self.removal, self.replacement, self.bonus = (nn.Parameter(torch.empty(W)) for _ in range(3))
        self.norm = of_each_head(rwkv.norm, rwkv.heads, rwkv.head_width)
        self.output = nn.Linear(W, width, bias=False)

    def extra_repr(self) -> str:
        return f"heads={self.rwkv.heads}, head_width={self.rwkv.head_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        change = previous(x_BTD, context, None if state is None else state.convolutions["x"]) - x_BTD
        reads = {side: torch.addcmul(x_BTD, change, self.get_parameter(f"{side}_mix").to(x_BTD.dtype)) for side in SIDES}
        named = ((name, self.get_submodule(name)(reads[name])) for name in PROJECTIONS)
        receptance, key, value = (by_head(name, y, self.rwkv.heads, context) for name, y in named)
        if self.rwkv.value_gate is not None:
            other = context.shared[self.rwkv.value_gate.variant, LEFT].flatten(2)
            value = (value + (other - value) * self.get_submodule("value_gate")(reads["value"])).to(value.dtype)
        if context.variant is not None:
            context.leave(LEFT, split_heads(value, self.rwkv.heads))
        decay, rate, gate = (self.get_submodule(name)(reads[name]) for name in ("decay", "rate", "gate"))
        mixed, own = self.recur(receptance, key, value, decay, rate, context, state)
        gated = (self.norm(by_head("mixed", mixed, self.rwkv.heads, context)) + own) * gate
        return put_out(self.output, split_heads(gated.to(x_BTD.dtype), self.rwkv.heads), context)

    def recur(
        self, receptance: Tensor, key: Tensor, value: Tensor, decay: Tensor, rate: Tensor, context: Context,
        state: RecurrentState | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """What the state gives and what the token itself does, (B, T, H * E), in fp32 at least; decay and rate in (0, 1)."""
        H = self.rwkv.heads
        with exactly(receptance):
            key = exact(key)
            removed = F.normalize(split_heads(key * exact(self.removal), H), dim=-1)
            key = key * (1 + (rate - 1) * exact(self.replacement))
            log_decay = -STRENGTH * decay
            if context.valid is not None:
                # Padding takes nothing out, writes nothing and decays nothing.
                padding = ~context.valid[..., None]
                key, rate, log_decay = (x.masked_fill(padding, 0) for x in (key, rate, log_decay))
            r, k, v, a, g = (split_heads(exact(x), H) for x in (receptance, key, value, rate, log_decay))
            own = (r * k * split_heads(exact(self.bonus), H)).sum(-1, keepdim=True) * v
            r, k, v, removed, g = (heads_first(x, H) for x in (r, k, v, removed, g))
            mixed, sums = generalised_delta(
                r,
                k,
                v,
                removed,
                heads_first(a, H) * removed,
                g,
                None if state is None else state.sums.to(k.dtype),
                chunk=self.chunk,
                segments=context.segments,
            )
            hold(sums, state, context)
            return time_first(mixed).flatten(2), own.flatten(2)
