"""The module of log-linear attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.document_places import places_in_documents
from anyformer.parts.recurrence.head_outputs_module import HeadOutputs
from anyformer.parts.recurrence.log_linear import Levels, log_linear_recurrence
from anyformer.parts.recurrence.log_linear_attention import PROJECTIONS, LogLinearAttention
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import by_head, heads_first, split_heads, time_first
from anyformer.plan import Plan


class LogLinearAttentionModule(HeadOutputs):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: LogLinearAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.part, self.chunk, H = part, plan.chunk, part.heads
        for name, features in part.outputs.items():
            self.add_module(name, nn.Linear(width, features, bias=False))
        self.level_scale = nn.Parameter(torch.empty(H * part.levels))
        self.decay = part.decay.build(width, H, part.key_width) if part.decay else None
        self.add_outputs(part.norm, part.gate, width, H, part.columns)

    def extra_repr(self) -> str:
        p = self.part
        return f"heads={p.heads}, widths={p.key_width}, {p.columns}, levels={p.levels}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        projected = (self.get_submodule(name)(x_BTD) for name in PROJECTIONS)
        named = zip(PROJECTIONS, projected, strict=True)
        query, key, value, level = (by_head(name, y, self.part.heads, context) for name, y in named)
        log_decay = None if self.decay is None else self.decay(x_BTD)
        mixed_BTHE = self.recur(query, key, value, level, log_decay, context, state).to(x_BTD.dtype)
        return self.put_out(x_BTD, context.see("mixed", mixed_BTHE), context)

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, level: Tensor, log_decay: Tensor | None, context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:  # fmt: skip
        """The mixed heads in fp32 at least, (B, T, H, E), of what is projected; log-decay (B, T, H, 1)."""
        H, levels, segments = self.part.heads, self.part.levels, context.segments
        positions = places_in_documents(context, goes_on=state is not None)
        with exactly(query):
            q, k, v = (split_heads(exact(x), H) for x in (query, key, value))
            scales = split_heads(F.softplus(exact(level) * exact(self.level_scale)), H)
            if context.valid is not None:
                # Padding writes nothing and decays nothing.
                padding = ~context.valid[..., None, None]
                k = k.masked_fill(padding, 0)
                log_decay = None if log_decay is None else log_decay.masked_fill(padding, 0)
            at = context.once(
                ("levels", levels, self.chunk, q.dtype),
                lambda: Levels.of(positions, segments, levels, self.chunk, q.dtype),
            )
            mixed, sums = log_linear_recurrence(
                heads_first(q * self.part.scale_of_queries, H),
                heads_first(k, H),
                heads_first(v, H),
                None if log_decay is None else heads_first(log_decay, H),
                heads_first(scales, H),
                None if state is None else state.sums.to(q.dtype),
                at,
                chunk=self.chunk,
                segments=segments,
            )
            hold(sums, state, context)
            return time_first(mixed)
