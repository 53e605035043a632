"""Log-linear attention: a linear attention with a state for each of some spans of the past, not one for all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from anyformer.describe import Count, Positive
from anyformer.operations import Operation, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.elementwise import activated
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.decay import ScalarDecay
from anyformer.parts.recurrence.head_outputs import heads_read, norm_and_gate
from anyformer.parts.recurrence.recurrent_work import log_linear_flops, recurrent
from anyformer.parts.sketch import Cell, Sketch, chain, fan
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.log_linear_attention_module import LogLinearAttentionModule


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
        states = Cell(f"states {H} × {self.levels} × ({M} × {E})", "memory")
        return heads_read("Log-linear attention", chain(read, states), self.norm, self.gate, width)

    @property
    def traits(self) -> Traits:
        return Traits("log-linear")

    def build(self, width: int, plan: Plan, name: str) -> LogLinearAttentionModule:
        from anyformer.parts.recurrence.log_linear_attention_module import LogLinearAttentionModule

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
        inner |= norm_and_gate(self.norm, self.gate, width, H, E, rows)
        state = recurrent(B * H * self.levels * M * E * SUM_BYTES, shape, H)
        products = log_linear_flops(B, H, M, E, self.levels, shape.length, plan.chunk)
        return parts + products + total(inner) + Tally(own_state=state)

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.columns
        query, of_head = value("BTHM", "queries", H=H, M=M), value("BTHE", "values", H=H, E=E)
        found = {"query": query, "key": replace(query, about="keys"), "value": of_head}
        found |= {"level": value("BTHn", "what each level counts, before its softplus", H=H, n=self.levels)}
        found |= state_seen("BHnME", H=H, n=self.levels, M=M, E=E)
        return found | {"mixed": replace(of_head, about="what each head read of its states")} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * levels * M * E sums, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        return RecurrentState.empty(batch, self.heads, self.levels, self.key_width, self.columns, device=device)
