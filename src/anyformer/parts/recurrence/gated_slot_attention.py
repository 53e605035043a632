"""Gated slot attention: softmax attention over a fixed number of slots, which tokens are written into and fade from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.elementwise import softmax
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.grouped_heads import GroupedHeads
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.convolved_projections import convolution_cell, projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.recurrent_work import cut, even, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.gated_slot_attention_module import GatedSlotAttentionModule


class GatedSlotAttention(GroupedHeads):
    """o_t = softmax(scale * q_t K_t^T) V_t over n slots, then norm(silu(heads side by side)) W_o.

        K_t = diag(f_t) K_{t-1} + (1 - f_t) k_t^T: (n, M),   V_t = diag(f_t) V_{t-1} + (1 - f_t) v_t^T: (n, E)
        f = sigmoid(x W_f)^(1 / tau): (B, T, K, n);   q: (B, T, H, M), k: (B, T, K, M), v: (B, T, K, E), each silu(x W)

    A slot takes as much of a token as it forgets of what it held. The softmax reads few slots sharply where a linear
    attention adds all of its state, and the state is that of two gated linear attentions (GSA, Zhang et al. 2024, arXiv
    2409.07146: n is its m, f its alpha, tau = 8). Both memories are sums in fp32. Query head h reads the slots of h // (H / K).
    """

    kind: Literal["gated_slot_attention"] = "gated_slot_attention"
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    slots: Annotated[int, Field(ge=2)] = 64
    """n, the slots of a head."""
    convolution: ShortConvolution | None = None
    """Convolution of queries, keys and values before their activation, each with weights of its own (the paper: none)."""
    temperature: Positive = 8.0
    """tau; above 1 slots forget more slowly."""
    scale: Positive = 1.0
    """Factor of the scores of slots."""
    norm: Norm | None = None
    """Norm of the heads side by side, after their activation."""

    @property
    def columns(self) -> int:
        """E."""
        return self.key_width if self.value_width is None else self.value_width

    @property
    def widths(self) -> dict[str, int]:
        """Features, over all heads, of each projection that may be convolved."""
        K, M = self.groups, self.key_width
        return {"query": self.heads * M, "key": K * M, "value": K * self.columns}

    def sketch(self, width: int) -> Sketch:
        H, K, M, E, n = self.heads, self.groups, self.key_width, self.columns, self.slots
        projected = fan(heads_cell("Q", H, M), heads_cell("K", K, M), heads_cell("V", K, E))
        read = fan(chain(projected, convolution_cell(self.convolution), Cell("SiLU", "pointwise")), Cell("f by slot", "memory"))
        slots = Cell(f"{n} slots {K} × ({n} × {M}), ({n} × {E})", "memory")
        norm = None if self.norm is None else Cell("norm of all heads", "norm")
        mixed = chain(read, slots, Cell("softmax over slots", "mix"), Cell("SiLU", "pointwise"), norm)
        return Sketch("Gated slot attention", flow=chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("gated slots")

    def resolved(self, width: int) -> GatedSlotAttention:
        return self.but(value_width=self.columns, kv_heads=self.groups)

    def build(self, width: int, plan: Plan, name: str) -> GatedSlotAttentionModule:
        from anyformer.parts.recurrence.gated_slot_attention_module import GatedSlotAttentionModule

        return GatedSlotAttentionModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, K, n = shape.batch, shape.rows, self.heads, self.groups, self.slots
        M, E, silu, scores = self.key_width, self.columns, ACTIVATIONS["silu"], rows * H * n
        parts = projections(self.widths, self.convolution, width, shape)
        parts += matrix("forget", width, K * n, rows, role="column")
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        inner = {f"{name}_activation": silu.cost(features, rows) for name, features in self.widths.items()}
        inner["mixed_activation"] = silu.cost(H * E, rows)
        inner["forgetting"] = ACTIVATIONS["sigmoid"].cost(K * n, rows)
        if self.norm is not None:
            inner["norm"] = self.norm.cost(H * E, rows)
        recent = recent_elements(self.widths, self.convolution, B) * plan.activation_bytes
        state = recurrent(B * K * n * (M + E) * SUM_BYTES + recent, shape, K)
        chosen = Tally(own_state=state, own_work={"softmax": softmax(scores, scores)})
        return parts + self._products(B, shape.length, plan.chunk) + total(inner) + chosen

    def _products(self, batch: int, length: int, chunk: int) -> Tally:
        """FLOPs of `slot_recurrence` from empty slots."""
        H, K, M, E, n = self.heads, self.groups, self.key_width, self.columns, self.slots
        if length == 1:
            return even(read=2 * batch * H * n * (M + E))
        size, chunks = cut(length, chunk, channels=True)
        rows, alone = batch * chunks * size, chunks == 1
        write, read = 2 * rows * K * n * (M + E), 2 * rows * H * n * (M + E)
        # Pairs whose decay depends on the slot are products of halves of halves: half of the square.
        halves = 2 * rows * H * (size - 1) * n
        return even(scores=2 * rows * H * size * M + halves, mix=2 * rows * H * size * E) + Tally(
            own_work={
                "write": Contraction(write, no_gradient=2 * write if alone else 0),
                "read": Contraction(read, no_gradient=read if alone else 0),
            }
        )

    def watchable(self, width: int) -> Watchables:
        H, K, M, E, n = self.heads, self.groups, self.key_width, self.columns, self.slots
        found = {
            "query": value("BTHM", "queries, before their activation", H=H, M=M),
            "key": value("BTKM", "keys, before their activation", K=K, M=M),
            "value": value("BTKE", "values, before their activation", K=K, E=E),
            "log_decay": value("BTKn", "log-decays of the slots", K=K, n=n),
        }
        found |= state_seen("BKnME", K=K, n=1, M=n, E=M + E)
        return found | {"mixed": value("BTHE", "what each head read of its slots", H=H, E=E)} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * K * slots * (M + E) sums, keys beside values, and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        recent = recent_inputs(self.widths, self.convolution, batch, dtype, device)
        shape = (batch, self.groups, 1, self.slots, self.key_width + self.columns)
        return RecurrentState.empty(*shape, device=device, convolutions=recent)
