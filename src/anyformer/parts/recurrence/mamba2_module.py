"""The module of Mamba-2."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.mamba2 import CONVOLVED, Mamba2
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import by_head, heads_first, split_heads, time_first
from anyformer.plan import Plan


class Mamba2Module(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mamba: Mamba2, width: int, plan: Plan) -> None:
        super().__init__()
        self.mamba, self.chunk = mamba, plan.chunk
        for name, features in mamba.outputs.items():
            self.add_module(name, nn.Linear(width, features, bias=name in mamba.bias))
            if name in mamba.widths and mamba.convolution is not None:
                self.add_module(f"{name}_convolution", mamba.convolution.build(features))
        self.A_log, self.dt_bias, self.skip = (nn.Parameter(torch.empty(mamba.heads)) for _ in range(3))
        self.norm = mamba.norm.build(mamba.heads * mamba.head_width) if mamba.norm else nn.Identity()
        self.output = nn.Linear(mamba.heads * mamba.head_width, width, bias="output" in mamba.bias)

    def extra_repr(self) -> str:
        m = self.mamba
        return f"heads={m.heads}, groups={m.groups}, widths={m.head_width}, {m.state_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        value, key, query = (self._convolved(name, x_BTD, context, state) for name in CONVOLVED)
        H = self.mamba.heads
        mixed = self.recur(value, key, query, self._projected("step", x_BTD), context, state)
        gate = F.silu(exact(by_head("gate", self._projected("gate", x_BTD), H, context)))
        mixed = self.norm(mixed * gate) if self.mamba.gate_at == "before_norm" else self.norm(mixed) * gate
        return put_out(self.output, split_heads(mixed.to(x_BTD.dtype), H), context)

    def recur(
        self, value: Tensor, key: Tensor, query: Tensor, step: Tensor, context: Context, state: RecurrentState | None = None
    ) -> Tensor:
        """The heads side by side in fp32 at least, (B, T, H * E), of projected and convolved inputs."""
        m = self.mamba
        with exactly(value):
            dt_BTH = F.softplus(exact(step) + exact(self.dt_bias)).clamp(m.step_floor, m.step_ceiling)
            dt_BTH = context.see("time_step", dt_BTH)
            if context.valid is not None:
                # A step of no time writes nothing and decays nothing.
                dt_BTH = dt_BTH.masked_fill(~context.valid[..., None], 0)
            v_BTHE = split_heads(exact(value), m.heads)
            mixed, sums = linear_recurrence(
                heads_first(split_heads(exact(query), m.groups), m.groups),
                heads_first(split_heads(exact(key), m.groups), m.groups),
                heads_first(v_BTHE * dt_BTH[..., None], m.groups),
                heads_first((-exact(self.A_log).exp() * dt_BTH)[..., None], m.groups),
                None if state is None else state.sums.to(v_BTHE.dtype),
                chunk=self.chunk,
                segments=context.segments,
            )
            hold(sums, state, context)
            return context.see("mixed", time_first(mixed) + exact(self.skip)[:, None] * v_BTHE).flatten(2)

    def _projected(self, name: str, x_BTD: Tensor) -> Tensor:
        y: Tensor = self.get_submodule(name)(x_BTD)
        return y if self.mamba.multipliers is None else y * self.mamba.multipliers.by_name[name]

    def _convolved(self, name: str, x_BTD: Tensor, context: Context, state: RecurrentState | None) -> Tensor:
        y = self._projected(name, x_BTD)
        if self.mamba.convolution is not None:
            recent = None if state is None else state.convolutions[name]
            y = self.get_submodule(f"{name}_convolution")(y, context, recent)
        return by_head(name, y, self.mamba.heads if name == "value" else self.mamba.groups, context)
