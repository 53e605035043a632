"""The module of Mamba-3."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_module import rotate
from anyformer.parts.recurrence.mamba3 import Mamba3
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import by_head, split_heads
from anyformer.parts.recurrence.trapezoid import following, latest, trapezoidal_recurrence
from anyformer.plan import Plan

PAIRS = Rotary(pairing="adjacent")
"""Neighbours turn together; of its angles none is read."""


class Mamba3Module(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mamba: Mamba3, width: int, plan: Plan) -> None:
        super().__init__()
        self.mamba, self.chunk, H, M = mamba, plan.chunk, mamba.heads, mamba.state_width
        for name, features in mamba.outputs.items():
            self.add_module(name, nn.Linear(width, features, bias=name in mamba.bias))
        for name in ("key", "query"):
            self.add_module(f"{name}_norm", mamba.qk_norm.build(M) if mamba.qk_norm else nn.Identity())
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.empty(H, M)))
        self.dt_bias, self.skip = (nn.Parameter(torch.empty(H)) for _ in range(2))
        self.norm = mamba.norm.build(H * mamba.head_width) if mamba.norm else nn.Identity()
        self.output = nn.Linear(H * mamba.head_width, width, bias="output" in mamba.bias)

    def extra_repr(self) -> str:
        m = self.mamba
        return f"heads={m.heads}, groups={m.groups}, widths={m.head_width}, {m.state_width}, angles={m.angles}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        H = self.mamba.heads
        projected = {name: self.get_submodule(name)(x_BTD) for name in self.mamba.outputs}
        gate = F.silu(exact(by_head("gate", projected.pop("gate"), H, context)))
        mixed = self.norm(by_head("mixed", self.recur(projected, context, state), H, context)) * gate
        return put_out(self.output, split_heads(mixed.to(x_BTD.dtype), H), context)

    def recur(self, projected: dict[str, Tensor], context: Context, state: RecurrentState | None = None) -> Tensor:
        """The heads side by side in fp32 at least, (B, T, H * E), of what is projected."""
        m, value = self.mamba, projected["value"]
        with exactly(value):
            dt_BTH = context.see("time_step", F.softplus(exact(projected["step"]) + exact(self.dt_bias)))
            if context.valid is not None:
                # A step of no time writes nothing, decays nothing and turns nothing.
                dt_BTH = dt_BTH.masked_fill(~context.valid[..., None], 0)
            own = exact(projected["trapezoid"]).sigmoid() * dt_BTH
            before = dt_BTH - own
            rate = F.softplus(exact(projected["decay"])).clamp(min=m.decay_floor)
            k, q = (context.see(name, self._biased(name, projected)) for name in ("key", "query"))
            v = context.see("value", split_heads(exact(value), m.heads))
            if m.angles is not None:
                turns = self._turns(projected["angle"], dt_BTH, state)
                table = tuple(wave.repeat_interleave(2, -1) for wave in (turns.cos(), turns.sin()))
                k, q = rotate(PAIRS, k, table), rotate(PAIRS, q, table)  # type: ignore[arg-type]
            sums = None if state is None else self._entering(state, before, context)
            mixed, sums = trapezoidal_recurrence(q, k, v, own, before, -rate * dt_BTH, sums, context, chunk=self.chunk)
            hold(sums, state, context)
            if state is not None:
                for name, each in (("key", k), ("value", v)):
                    held = state.convolutions[name].recent
                    held.copy_(latest(each.flatten(2), held.to(each.dtype), context))
            return (mixed + exact(self.skip)[:, None] * v).flatten(2)

    def _biased(self, name: str, projected: dict[str, Tensor]) -> Tensor:
        """Keys or queries of every head, (B, T, H, M)."""
        m = self.mamba
        normed = exact(self.get_submodule(f"{name}_norm")(split_heads(projected[name], m.groups)))
        return normed.repeat_interleave(m.heads // m.groups, 2) + exact(self.get_parameter(f"{name}_bias"))

    def _turns(self, angle: Tensor, dt_BTH: Tensor, state: RecurrentState | None) -> Tensor:
        """How far each pair has turned, (B, T, H, R / 2): a document begins anywhere, for only differences are read."""
        turns = ((math.pi * exact(angle).tanh())[:, :, None] * dt_BTH[..., None]).cumsum(1)
        if state is not None:
            held = state.convolutions["angle"].recent
            turns = turns + held.view(len(held), 1, *turns.shape[2:])
            held.copy_(turns[:, -1:].flatten(2) % (2 * math.pi))
        return turns

    def _entering(self, state: RecurrentState, before: Tensor, context: Context) -> Tensor:
        """The sums with what the first token writes of the one before."""
        H = self.mamba.heads
        share = following(before, context)[:, 0, :, None, None, None]
        key, value = (state.convolutions[name].recent.view(len(before), H, 1, 1, -1) for name in ("key", "value"))
        return state.sums.to(before.dtype) + share * key.mT * value
