"""Gated DeltaNet-2: a delta rule that erases by feature of the key and writes by feature of the value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Count, Positive
from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.convolved_projections import projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.decay import ChannelDecay
from anyformer.parts.recurrence.recurrent_work import generalised_delta_flops, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.gated_delta2_module import GatedDelta2Module


class GatedDelta2(Sublayer):
    """S_t = (I - k_t (b_t * k_t)^T) diag(decay_t) S_{t-1} + k_t (w_t * v_t)^T, o_t = scale * q_t S_t, then gate(norm(o)) W_o.

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v: (B, T, H, E) likewise but not divided; b =
    erase_scale * sigmoid(x W_b): (B, T, H, M); w = sigmoid(x W_w): (B, T, H, E); S: (M, E) per head, in fp32. Kimi's delta
    attention has one beta for both: with b = w = beta this is `DeltaAttention` with a `ChannelDecay` ("Gated DeltaNet-2:
    Decoupling Erase and Write in Linear Attention", as flash-linear-attention has it).
    """

    kind: Literal["gated_delta_2"] = "gated_delta_2"
    heads: Count
    """H."""
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    convolution: ShortConvolution | None = None
    """Convolution of queries, keys and values, each with weights of its own (the reference: kernel 4, silu)."""
    decay: ChannelDecay = ChannelDecay()
    """Of every key feature, by the input (the reference: through `rank` = E features)."""
    erase_scale: Annotated[float, Field(gt=0, le=2)] = 1.0
    """Above 1 the state can change sign along a key."""
    length_eps: Positive = 1e-6
    """Added to the squared lengths that queries and keys are divided by."""
    scale: Positive | None = None
    """Factor of the queries; M^-0.5 by default."""
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
    def widths(self) -> dict[str, int]:
        """Features, over all heads, of each projection that may be convolved."""
        keys = self.heads * self.key_width
        return {"query": keys, "key": keys, "value": self.heads * self.columns}

    @property
    def scale_of_queries(self) -> float:
        """The factor of the queries, as a number."""
        return self.key_width**-0.5 if self.scale is None else self.scale

    def sketch(self, width: int) -> Sketch:
        H, M, E = self.heads, self.key_width, self.columns
        projected = fan(heads_cell("Q", H, M), heads_cell("K", H, M), heads_cell("V", H, E))
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        read = fan(chain(projected, convolved), Cell("erased, written and kept by feature", "memory"))
        state = Cell(f"state {H} × ({M} × {E}), delta rule", "memory")
        norm = None if self.norm is None else Cell("norm of each head", "norm")
        mixed = gated(chain(read, state, norm), self.gate)
        return Sketch("Gated delta net 2", flow=chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("delta")

    def resolved(self, width: int) -> GatedDelta2:
        return self.but(value_width=self.columns, scale=self.scale_of_queries)

    def build(self, width: int, plan: Plan, name: str) -> GatedDelta2Module:
        from anyformer.parts.recurrence.gated_delta2_module import GatedDelta2Module

        return GatedDelta2Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.columns
        recent = recent_elements(self.widths, self.convolution, B) * plan.activation_bytes
        parts, state = projections(self.widths, self.convolution, width, shape), B * H * M * E * SUM_BYTES + recent
        inner = {"decay": self.decay.cost(width, H, M, rows)}
        for name, features in {"erase_gate": H * M, "write_gate": H * E}.items():
            parts += matrix(name, width, features, rows, role="column")
            inner[f"{name}_activation"] = ACTIVATIONS["sigmoid"].cost(features, rows, gated=True)
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        if self.norm is not None:
            inner["norm"] = self.norm.cost(E, rows * H)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        products = generalised_delta_flops(B, H, M, E, shape.length, plan.chunk)
        return parts + products + total(inner) + Tally(own_state=recurrent(state, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.columns
        keys, values = value("BTHM", "queries", H=H, M=M), value("BTHE", "values", H=H, E=E)
        found = {"query": keys, "key": replace(keys, about="keys"), "value": values}
        found |= {"erase": replace(keys, about="how much is erased along a key feature")}
        found |= {"write": replace(values, about="how much of a value feature is written")}
        found |= {"log_decay": replace(keys, about="log-decays of the key features")}
        found |= state_seen("BHnME", H=H, n=1, M=M, E=E)
        return found | {"mixed": replace(values, about="what each head read of its state")} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * E sums and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        recent = recent_inputs(self.widths, self.convolution, batch, dtype, device)
        return RecurrentState.empty(batch, self.heads, 1, self.key_width, self.columns, device=device, convolutions=recent)
