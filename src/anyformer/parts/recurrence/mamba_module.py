"""The module of Mamba."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.mamba import Mamba
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.selective_scan import selective_scan
from anyformer.plan import Plan


class MambaModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mamba: Mamba, width: int, plan: Plan) -> None:
        super().__init__()
        self.mamba, self.chunk = mamba, plan.chunk
        W, M, P, norm = mamba.channels, mamba.state_width, mamba.step_rank, mamba.inner_norm
        self.gate = nn.Linear(width, W, bias="gate" in mamba.bias)
        self.value = nn.Linear(width, W, bias="value" in mamba.bias)
        self.convolution = mamba.convolution.build(W) if mamba.convolution else None
        self.step_down = nn.Linear(W, P, bias=False)
        self.key, self.query = nn.Linear(W, M, bias=False), nn.Linear(W, M, bias=False)
        self.step_norm, self.key_norm, self.query_norm = (
            norm.build(features) if norm else nn.Identity() for features in mamba.narrow.values()
        )
        self.step = nn.Linear(P, W, bias=False)
        self.A_log = nn.Parameter(torch.empty(W, M))
        self.dt_bias, self.skip = nn.Parameter(torch.empty(W)), nn.Parameter(torch.empty(W))
        self.output = nn.Linear(W, width, bias="output" in mamba.bias)

    def extra_repr(self) -> str:
        return f"channels={self.mamba.channels}, state_width={self.mamba.state_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        value_BTW = self.value(x_BTD)
        if self.convolution is not None:
            value_BTW = self.convolution(value_BTW, context, None if state is None else state.convolutions["value"])
        gate_BTW = context.see("gate", self.gate(x_BTD))
        mixed_BTW = self.recur(context.see("value", value_BTW), context, state) * F.silu(exact(gate_BTW))
        return self.output(context.see("hidden", mixed_BTW.to(x_BTD.dtype)))  # type: ignore[no-any-return]

    def recur(self, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The outputs of the scan in fp32 at least, (B, T, W), of convolved values."""
        step = self.step(self.step_norm(self.step_down(value)))
        key = context.see("key", self.key_norm(self.key(value)))
        query = context.see("query", self.query_norm(self.query(value)))
        with exactly(value):
            dt_BTW, v_BTW = context.see("time_step", F.softplus(exact(step) + exact(self.dt_bias))), exact(value)
            if context.valid is not None:
                # A step of no time writes nothing and decays nothing.
                dt_BTW = dt_BTW.masked_fill(~context.valid[..., None], 0)
            past = None if state is None else state.sums.to(v_BTW.dtype)
            rate_WM, k_BTM, q_BTM = exact(self.A_log).exp(), exact(key), exact(query)
            mixed_BTW, sums = selective_scan(
                v_BTW, dt_BTW, rate_WM, k_BTM, q_BTM, past, chunk=self.chunk, segments=context.segments
            )
            hold(sums, state, context)
            return context.see("mixed", mixed_BTW + exact(self.skip) * v_BTW)
