"""The module of mLSTM."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.named_values_module import put_out
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.mlstm import MLSTM
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import by_head, heads_first, split_heads, time_first
from anyformer.plan import Plan


class MLSTMModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, mlstm: MLSTM, width: int, plan: Plan) -> None:
        super().__init__()
        self.mlstm, self.chunk = mlstm, plan.chunk
        for name, features in mlstm.outputs.items():
            self.add_module(name, nn.Linear(width, features, bias=name in mlstm.bias))
        self.input_gate, self.forget_gate = nn.Linear(width, mlstm.heads), nn.Linear(width, mlstm.heads)
        self.norm = mlstm.norm.build(mlstm.heads * mlstm.value_width) if mlstm.norm else nn.Identity()
        self.output = nn.Linear(mlstm.heads * mlstm.value_width, width, bias="output" in mlstm.bias)

    def extra_repr(self) -> str:
        m = self.mlstm
        return f"heads={m.heads}, widths={m.key_width}, {m.value_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        H = self.mlstm.heads
        projected = {name: self.get_submodule(name)(x_BTD) for name in self.mlstm.outputs}
        query, key, value, gate = (by_head(name, y, H, context) for name, y in projected.items())
        entering, kept = (
            context.see(f"{name}_gate", self.get_submodule(f"{name}_gate")(x_BTD)) for name in ("input", "forget")
        )
        mixed = by_head("mixed", self.recur(query, key, value, entering, kept, context, state), H, context)
        return put_out(self.output, split_heads(self.norm(mixed.to(x_BTD.dtype)) * gate.sigmoid(), H), context)

    def recur(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        entering: Tensor,
        kept: Tensor,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The heads side by side in fp32 at least, (B, T, H * E), of what is projected; gates (B, T, H)."""
        H, cap = self.mlstm.heads, self.mlstm.gate_cap
        with exactly(query):
            opened, log_kept = ((cap * torch.tanh(exact(gate) / cap))[..., None] for gate in (entering, kept))
            k_BTHM, v_BTHE = split_heads(exact(key), H) * opened.exp(), split_heads(exact(value), H)
            log_decay = F.logsigmoid(log_kept)
            if context.valid is not None:
                padding = ~context.valid[..., None, None]
                k_BTHM, log_decay = k_BTHM.masked_fill(padding, 0), log_decay.masked_fill(padding, 0)
            counted = torch.cat([v_BTHE, torch.ones_like(v_BTHE[..., :1])], -1)
            q_BTHM = split_heads(exact(query), H) * self.mlstm.key_width**-0.5
            mixed, sums = linear_recurrence(
                heads_first(q_BTHM, H),
                heads_first(k_BTHM, H),
                heads_first(counted, H),
                heads_first(log_decay, H),
                None if state is None else state.sums.to(k_BTHM.dtype),
                chunk=self.chunk,
                segments=context.segments,
            )
            hold(sums, state, context)
            read, counts = time_first(mixed).tensor_split([-1], -1)
            return (read / counts.abs().clamp(min=1)).flatten(2)
