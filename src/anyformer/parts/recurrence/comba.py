"""Comba: a delta rule whose state is corrected by feedback of learned strength, and whose reading is corrected by the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Contraction, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.convolved_heads import DeltaHeads
from anyformer.parts.recurrence.decay import ScalarDecay
from anyformer.parts.recurrence.head_outputs import heads_read
from anyformer.parts.recurrence.recurrent_work import cut, even
from anyformer.parts.sketch import Cell, Sketch, chain, fan
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.recurrence.comba_module import CombaModule


class Comba(DeltaHeads):
    """S_t = (decay_t - b beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T, o_t = scale * (q_t - d k_t) S_t, then gate(norm(o)) W_o.

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v: (B, T, H, E) likewise but not divided; beta =
    sigmoid(x W_beta): (B, T, H); b = sigmoid(b'), d: (H,), learned; S: (M, E) per head, in fp32. What is written and what is
    taken out have strengths of their own, and are taken from the state before its decay, where a gated delta net takes from the
    decayed state as much as it writes (Hu et al. 2025, arXiv 2506.02475; the paper's state is transposed, its b is our b, its
    feedback beta~ is b beta). With b = 1, d = 0 and no decay it is `DeltaAttention`.
    """

    kind: Literal["comba"] = "comba"
    decay: ClassVar[ScalarDecay] = ScalarDecay()
    """Of every head, by the input, as in a gated delta net."""

    def sketch(self, width: int) -> Sketch:
        state = Cell(f"state {self.heads} × ({self.key_width} × {self.columns}), fed back", "memory")
        read = fan(*self.sides(), Cell("β · decay per head", "memory"))
        return heads_read("Comba", chain(read, state), self.norm, self.gate, width)

    @property
    def traits(self) -> Traits:
        return Traits("Comba")

    def build(self, width: int, plan: Plan, name: str) -> CombaModule:
        from anyformer.parts.recurrence.comba_module import CombaModule

        return CombaModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.columns
        parts = self.around(width, shape, plan) + matrix("beta", width, H, rows, role="column")
        parts += Tally({"feedback": Weight((H,), "column", "ones"), "correction": Weight((H,), "column", 0.02)})
        inner = {"beta_activation": ACTIVATIONS["sigmoid"].cost(H, rows), "decay": self.decay.cost(width, H, M, rows)}
        return parts + total(inner) + _products(B, H, M, E, shape.length, plan.chunk)

    def watchable(self, width: int) -> Watchables:
        beta = value("BTH", "how much of a value is written", H=self.heads)
        return {"beta": beta, "log_decay": value("BTHn", "log-decays", H=self.heads, n=1), **super().watchable(width)}


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
