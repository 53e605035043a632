"""Log-linear attention: a linear attention with a state for each of some spans of the past, not one for all of it."""

from __future__ import annotations

from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import Count, Positive
from anyformer.operations import Operation, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import activated
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.decay import ScalarDecay
from anyformer.parts.recurrence.document_places import places_in_documents
from anyformer.parts.recurrence.log_linear import Levels, log_linear_flops, log_linear_recurrence
from anyformer.parts.recurrence.recurrence import exact, exactly, recurrent
from anyformer.parts.recurrence.recurrent_heads import heads_first, split_heads, time_first
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

PROJECTIONS = ("query", "key", "value", "level")


class LogLinearAttention(Sublayer):
    """o_t = sum over levels of lambda_t[level] * scale * q_t S_t[level], then gate(norm(o)) W_o: log T states for T tokens.

    q, k: (B, T, H, M), v: (B, T, H, E); S_t[level]: (M, E), the sum of k_s v_s^T over the tokens of a span, each times the
    decay since; level 0 is the token itself and a level l > 0 spans of 2^(l - 1) tokens, further back the higher l is, as a
    Fenwick tree cuts the past; what lies beyond the last level is of it. lambda = softplus(level_scale * (x W_level)): (B, T,
    H, levels). States in fp32. (Guo et al. 2025, arXiv 2506.04761; level_scale is L in flash-linear-attention's Mamba-2, whose
    other weights are not all here.)
    """

    kind: Literal["log_linear_attention"] = "log_linear_attention"
    heads: Count
    """H, heads and trees of states."""
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    levels: Count = 15
    """States of a head: 15 tell 2^14 tokens apart, the number in flash-linear-attention."""
    decay: ScalarDecay | None = None
    scale: Positive | None = None
    """Factor of the queries; M^-0.5 by default."""
    norm: Norm | None = None
    """Norm of each head's output, before the gate."""
    gate: Gate | None = None

    @property
    def columns(self) -> int:
        """E."""
        return self.key_width if self.value_width is None else self.value_width

    @property
    def scale_of_queries(self) -> float:
        """The factor of the queries, as a number."""
        return self.key_width**-0.5 if self.scale is None else self.scale

    @property
    def outputs(self) -> dict[str, int]:
        """Features of each projection that reads the stream."""
        H, M = self.heads, self.key_width
        return dict(zip(PROJECTIONS, (H * M, H * M, H * self.columns, H * self.levels), strict=True))

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(heads=self.heads // ways)

    def resolved(self, width: int) -> Self:
        return self.but(value_width=self.columns, scale=self.scale_of_queries)

    def sketch(self, width: int) -> Sketch:
        H, M, E = self.heads, self.key_width, self.columns
        scales = Cell(f"λ {H} × {self.levels}{'' if self.decay is None else ' · decay per head'}", "memory")
        read = fan(heads_cell("Q", H, M), heads_cell("K", H, M), heads_cell("V", H, E), scales)
        norm = None if self.norm is None else Cell("norm of each head", "norm")
        mixed = gated(chain(read, Cell(f"states {H} × {self.levels} × ({M} × {E})", "memory"), norm), self.gate)
        return Sketch("Log-linear attention", flow=chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("log-linear")

    def build(self, width: int, plan: Plan, name: str) -> LogLinearAttentionModule:
        return LogLinearAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.columns
        parts, inner = Tally(), {}
        for name, features in self.outputs.items():
            parts += matrix(name, width, features, rows, role="column")
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        own: dict[str, Operation] = {"level_activation": activated(rows * H * self.levels, gated=True)}
        parts += Tally({"level_scale": Weight((H * self.levels,), "column", "ones")}, own)
        if self.decay is not None:
            inner["decay"] = self.decay.cost(width, H, M, rows)
        if self.norm is not None:
            inner["norm"] = self.norm.cost(E, rows * H)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        state = recurrent(B * H * self.levels * M * E * SUM_BYTES, shape, H)
        products = log_linear_flops(B, H, M, E, self.levels, shape.length, plan.chunk)
        return parts + products + total(inner) + Tally(own_state=state)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * levels * M * E sums, for any capacity."""
        return RecurrentState.empty(batch, self.heads, self.levels, self.key_width, self.columns, device=device)


class LogLinearAttentionModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: LogLinearAttention, width: int, plan: Plan) -> None:
        super().__init__()
        self.part, self.chunk, H, E = part, plan.chunk, part.heads, part.columns
        for name, features in part.outputs.items():
            self.add_module(name, nn.Linear(width, features, bias=False))
        self.level_scale = nn.Parameter(torch.empty(H * part.levels))
        self.decay = part.decay.build(width, H, part.key_width) if part.decay else None
        self.norm = part.norm.build(E) if part.norm else nn.Identity()
        self.gate = part.gate.module(width, H, E) if part.gate else None
        self.output = nn.Linear(H * E, width, bias=False)

    def extra_repr(self) -> str:
        p = self.part
        return f"heads={p.heads}, widths={p.key_width}, {p.columns}, levels={p.levels}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        query, key, value, level = (self.get_submodule(name)(x_BTD) for name in PROJECTIONS)
        log_decay = None if self.decay is None else self.decay(x_BTD)
        mixed_BTHE = self.norm(self.recur(query, key, value, level, log_decay, context, state).to(x_BTD.dtype))
        if self.gate is not None:
            mixed_BTHE = self.gate(x_BTD, mixed_BTHE)
        return self.output(mixed_BTHE.flatten(2))  # type: ignore[no-any-return]

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
            if state is not None:
                state.sums.copy_(sums)
            return time_first(mixed)
