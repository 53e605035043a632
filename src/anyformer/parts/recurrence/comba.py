"""Comba: a delta rule whose state is corrected by feedback of learned strength, and whose reading is corrected by the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.convolved_projections import projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.decay import ScalarDecay
from anyformer.parts.recurrence.recurrent_work import cut, even, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.comba_module import CombaModule


class Comba(Sublayer):
    """S_t = (decay_t - b beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T, o_t = scale * (q_t - d k_t) S_t, then gate(norm(o)) W_o.

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v: (B, T, H, E) likewise but not divided; beta =
    sigmoid(x W_beta): (B, T, H); b = sigmoid(b'), d: (H,), learned; S: (M, E) per head, in fp32. What is written and what is
    taken out have strengths of their own, and are taken from the state before its decay, where a gated delta net takes from the
    decayed state as much as it writes (Hu et al. 2025, arXiv 2506.02475; the paper's state is transposed, its b is our b, its
    feedback beta~ is b beta). With b = 1, d = 0 and no decay it is `DeltaAttention`.
    """

    kind: Literal["comba"] = "comba"
    heads: Count
    """H."""
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    convolution: ShortConvolution | None = None
    """Convolution of queries, keys and values, each with weights of its own (the paper: kernel 4, silu)."""
    decay: ClassVar[ScalarDecay] = ScalarDecay()
    """Of every head, by the input, as in a gated delta net."""
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
        read = fan(chain(projected, convolved), Cell("β · decay per head", "memory"))
        state = Cell(f"state {H} × ({M} × {E}), fed back", "memory")
        norm = None if self.norm is None else Cell("norm of each head", "norm")
        mixed = gated(chain(read, state, norm), self.gate)
        return Sketch("Comba", flow=chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("Comba")

    def resolved(self, width: int) -> Comba:
        return self.but(value_width=self.columns, scale=self.scale_of_queries)

    def build(self, width: int, plan: Plan, name: str) -> CombaModule:
        from anyformer.parts.recurrence.comba_module import CombaModule

        return CombaModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.columns
        recent = recent_elements(self.widths, self.convolution, B) * plan.activation_bytes
        parts, state = projections(self.widths, self.convolution, width, shape), B * H * M * E * SUM_BYTES + recent
        parts += matrix("beta", width, H, rows, role="column")
        parts += Tally({"feedback": Weight((H,), "column", "ones"), "correction": Weight((H,), "column", 0.02)})
        inner = {"beta_activation": ACTIVATIONS["sigmoid"].cost(H, rows)}
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        inner["decay"] = self.decay.cost(width, H, M, rows)
        if self.norm is not None:
            inner["norm"] = self.norm.cost(E, rows * H)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        products = _products(B, H, M, E, shape.length, plan.chunk)
        return parts + products + total(inner) + Tally(own_state=recurrent(state, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.columns
        keys = value("BTHM", "queries", H=H, M=M)
        found = {"query": keys, "key": value("BTHM", "keys", H=H, M=M), "value": value("BTHE", "values", H=H, E=E)}
        found["beta"] = value("BTH", "how much of a value is written", H=H)
        found["log_decay"] = value("BTHn", "log-decays", H=H, n=1)
        found |= state_seen("BHnME", H=H, n=1, M=M, E=E)
        return found | {"mixed": value("BTHE", "what each head read of its state", H=H, E=E)} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * E sums and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        recent = recent_inputs(self.widths, self.convolution, batch, dtype, device)
        return RecurrentState.empty(batch, self.heads, 1, self.key_width, self.columns, device=device, convolutions=recent)


def _products(batch: int, heads: int, key: int, value: int, length: int, chunk: int) -> Tally:
    """As `generalised_delta_flops`, with a decay per head, of which products of pairs are whole."""
    if length == 1:
        return even(write=2 * batch * heads * key * value, read=2 * batch * heads * key * value)
    size, chunks = cut(length, chunk, channels=False)
    rows = batch * chunks * size
    through = 2 * rows * heads * key * value
    return even(scores=8 * rows * heads * size * key, mix=6 * rows * heads * size * value) + Tally(
        own_work={
            # The first chunk reads a state of zeros, and no chunk reads the state after the last one.
            "write": Contraction(3 * through, no_gradient=5 * through // chunks),
            "read": Contraction(through, no_gradient=through if chunks == 1 else 0),
            # A solve is no matrix product, but the gradient of its triangle is one.
            "solve": Contraction(0, no_gradient=-2 * rows * heads * size * (key + value)),
        }
    )
