"""The module of gated linear attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.pointwise.activation_module import built_activation
from anyformer.parts.recurrence.gated_linear_attention import GatedLinearAttention
from anyformer.parts.recurrence.head_outputs_module import HeadOutputs
from anyformer.parts.recurrence.recurrence import exact, exactly, linear_recurrence
from anyformer.parts.recurrence.recurrent_heads_module import heads_first, split_heads, time_first, zero_on_padding
from anyformer.plan import Plan


class GatedLinearAttentionModule(HeadOutputs):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: GatedLinearAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.part, self.chunk, self.heads = part, plan.chunk, part.heads
        E = part.width_of_head(width)
        features, self.scale = self.heads * E, part.scale_of(width)
        self.query = nn.Linear(width, features, bias="query" in part.bias)
        self.key = nn.Linear(width, features, bias="key" in part.bias) if part.keys == "projected" else None
        self.value = nn.Linear(width, features, bias="value" in part.bias)
        self.forget_down = nn.Linear(width, part.rank, bias=False) if part.rank else nn.Identity()
        self.forget = nn.Linear(part.rank or width, features)
        self.activation = built_activation(part.activation, features)
        self.add_outputs(part.norm, part.gate, width, self.heads, E, bias="output" in part.bias)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, keys={self.part.keys}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        forget = self.forget(self.forget_down(x_BTD))
        query, value = self.activation(self.query(x_BTD)), self.value(x_BTD)
        key = None if self.key is None else self.key(x_BTD)
        return self.put_out(x_BTD, self.recur(query, key, value, forget, context=context, state=state), context)

    def recur(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor,
        forget: Tensor,
        *,
        context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:
        """The mixed heads (B, T, H, E) of what was projected, (B, T, H * E) each; without keys 1 - f is written."""
        with exactly(query):
            log_decay = context.see("log_decay", self._log_decay(split_heads(exact(forget), self.heads)))
            kept = -torch.expm1(log_decay) if key is None else split_heads(exact(key), self.heads)
            q = context.see("query", split_heads(exact(query), self.heads)) * self.scale
            k, v = context.see("key", kept), context.see("value", split_heads(exact(value), self.heads))
            # Padding writes nothing and forgets nothing.
            k, log_decay = zero_on_padding(context, k, log_decay)
            past = None if state is None else state.sums.to(q.dtype)
            q, k, v, log_decay = (heads_first(y, self.heads) for y in (q, k, v, log_decay))
            mixed, sums = linear_recurrence(q, k, v, log_decay, past, chunk=self.chunk, segments=context.segments)
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))

    def _log_decay(self, forget: Tensor) -> Tensor:
        """log(l + (1 - l) sigmoid(z)^(1 / tau))."""
        above = F.logsigmoid(forget) / self.part.temperature
        least = self.part.least
        return above if least == 0 else torch.log(least + (1 - least) * above.exp())
