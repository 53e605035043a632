"""The base module of mixers with a state per head, of queries, keys and values that a short convolution may follow."""

from __future__ import annotations

from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState, hold
from anyformer.parts.recurrence.convolved_heads import ConvolvedHeads
from anyformer.parts.recurrence.convolved_projections_module import ConvolvedProjections, unit_length
from anyformer.parts.recurrence.head_outputs_module import HeadOutputs
from anyformer.parts.recurrence.recurrence import exact, exactly
from anyformer.parts.recurrence.recurrent_heads_module import split_heads, time_first
from anyformer.plan import Plan


class ConvolvedHeadsModule(ConvolvedProjections, HeadOutputs):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: ConvolvedHeads, width: int, plan: Plan) -> None:
        super().__init__(part.widths, width, part.convolution, part.convolved)
        self.heads, self.length_eps, self.chunk = part.heads, part.length_eps, plan.chunk
        self.add_outputs(part.norm, part.gate, width, part.heads, part.columns)
        self.shown = f"heads={part.heads}, widths={part.key_width}, {part.columns}"

    def extra_repr(self) -> str:
        return self.shown

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value = (self.projected(name, x_BTD, self.heads, context, state) for name in ("query", "key", "value"))
        mixed_BTHE = self.recur(query, key, value, *self.controls(x_BTD), context=context, state=state)
        return self.put_out(x_BTD, mixed_BTHE, context)

    def controls(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        """What says how the state is written and fades, before its activations."""
        raise NotImplementedError

    def recur(
        self, query: Tensor, key: Tensor, value: Tensor, *controls: Tensor, context: Context,
        state: RecurrentState | None = None,
    ) -> Tensor:  # fmt: skip
        """The mixed heads, (B, T, H, E), of projected and convolved inputs, each (B, T, features of all heads)."""
        with exactly(query):
            q, k = (unit_length(split_heads(exact(y), self.heads), self.length_eps) for y in (query, key))
            past = None if state is None else state.sums.to(q.dtype)
            mixed, sums = self.over_time(q, k, split_heads(exact(value), self.heads), controls, past, context)
            hold(sums, state, context)
        return context.see("mixed", time_first(mixed).to(query.dtype))

    def over_time(
        self, q: Tensor, k: Tensor, v: Tensor, controls: tuple[Tensor, ...], past: Tensor | None, context: Context
    ) -> tuple[Tensor, Tensor]:
        """The mixed heads and the state behind them, (B, H, 1, T, E) and (B, H, 1, M, columns), in fp32 at least."""
        raise NotImplementedError
