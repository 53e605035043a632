"""The base of mixers with a state (M, E) per head, of queries, keys and values that a short convolution may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from anyformer.describe import Count, Positive
from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.convolved_projections import convolution_cell, projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.head_outputs import norm_and_gate
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Flow, chain, fan
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState


class ConvolvedHeads(Sublayer):
    """Heads of queries and keys, divided by their lengths, and values, with a state each; then gate(norm(o)) W_o."""

    kind: str
    heads: Count
    """H."""
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    convolution: ShortConvolution | None = None
    """Convolution of queries, keys and values, each with weights of its own (the papers: kernel 4, silu)."""
    length_eps: Positive = 1e-6
    """Added to the squared lengths that queries and keys are divided by."""
    norm: Norm | None = None
    """Norm of each head's output, before the gate."""
    gate: Gate | None = None

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    @property
    def columns(self) -> int:
        """E."""
        return self.key_width if self.value_width is None else self.value_width

    @property
    def held(self) -> int:
        """The columns of a head's state, of which each has M sums."""
        return self.columns

    @property
    def widths(self) -> dict[str, int]:
        """Features, over all heads, of each projection."""
        return dict.fromkeys(("query", "key"), self.heads * self.key_width) | {"value": self.heads * self.columns}

    @property
    def convolved(self) -> dict[str, int]:
        """Those that may be convolved."""
        return self.widths

    def resolved(self, width: int) -> Self:
        return self.but(value_width=self.columns)

    def sides(self) -> tuple[Flow, ...]:
        """The picture of queries, keys and values, those in one that are convolved together."""
        H, M = self.heads, self.key_width
        cells = {"query": heads_cell("Q", H, M), "key": heads_cell("K", H, M), "value": heads_cell("V", H, self.columns)}
        together = fan(*(cells.pop(name) for name in self.convolved))
        return chain(together, convolution_cell(self.convolution)), *cells.values()

    def around(self, width: int, shape: Shape, plan: Plan) -> Tally:
        """Weights and work of the projections, the norm and the gate, and the state."""
        B, rows, H, E = shape.batch, shape.rows, self.heads, self.columns
        recent = recent_elements(self.convolved, self.convolution, B) * plan.activation_bytes
        alone = {name: features for name, features in self.widths.items() if name not in self.convolved}
        parts = projections(self.convolved, self.convolution, width, shape) + projections(alone, None, width, shape)
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        state = recurrent(B * H * self.key_width * self.held * SUM_BYTES + recent, shape, H)
        return parts + total(norm_and_gate(self.norm, self.gate, width, H, E, rows)) + Tally(own_state=state)

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.columns
        found = {"query": value("BTHM", "queries", H=H, M=M), "key": value("BTHM", "keys", H=H, M=M)}
        found |= {"value": value("BTHE", "values", H=H, E=E)} | state_seen("BHnME", H=H, n=1, M=M, E=self.held)
        return found | {"mixed": value("BTHE", "what each head read of its state", H=H, E=E)} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """The sums of every head and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        recent = recent_inputs(self.convolved, self.convolution, batch, dtype, device)
        return RecurrentState.empty(batch, self.heads, 1, self.key_width, self.held, device=device, convolutions=recent)


class DeltaHeads(ConvolvedHeads):
    """Those of a delta rule, whose queries have a factor."""

    scale: Positive | None = None
    """Factor of the queries; M^-0.5 by default."""

    @property
    def scale_of_queries(self) -> float:
        """The factor of the queries, as a number."""
        return self.key_width**-0.5 if self.scale is None else self.scale

    def resolved(self, width: int) -> Self:
        return self.but(value_width=self.columns, scale=self.scale_of_queries)
