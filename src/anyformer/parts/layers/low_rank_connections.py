"""Hyper-connections of low rank: streams whose features a step reads with gates of the token, and never mixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count, Positive
from anyformer.operations import Tally, Weight, matrix, total
from anyformer.parts.layers.streams import StepStreams
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from anyformer.parts.layers.low_rank_connections_module import LowRankConnectionsModule, LowRankEnds


class LowRankConnections(StepStreams):
    """N residual streams of which a step leaves x_n + w_n f(h), h = mean_n m_n * v_n: a gate for each feature that it reads.

    With v_n = (1 + g_n) * x_n / rms(x_n) and v all N side by side:

        m = sigmoid(silu(v A / N) B), A (N D, P), B (P, N D)     w = 2 sigmoid(v W / N), W (N D, N)

    and the stream behind the last layer is h of gates of its own. Steps need no norm before their branches, since v is one.
    `hyper_connections` of Qwen4-Exp (transformers 5.23, `qwen4_exp`): vectors of gates at the price of a rank P, where other
    hyper-connections have a number per stream.
    """

    kind: Literal["low_rank_connections"] = "low_rank_connections"
    rank: Count = 320
    """Features P that the gates pass through."""
    eps: Positive = 1e-6
    """Of the norm of each stream."""

    def sketch(self, width: int) -> Sketch:
        fact = f"{self.count} residual streams, read feature by feature by gates of rank {number(self.rank)}"
        return Sketch("Low-rank hyper-connections", (fact,))

    def build_ends(self, width: int) -> LowRankEnds:
        from anyformer.parts.layers.low_rank_connections_module import LowRankEnds

        return LowRankEnds(self, width)

    def build(self, width: int, index: int, inputs: Inputs = None) -> LowRankConnectionsModule:
        from anyformer.parts.layers.low_rank_connections_module import LowRankConnectionsModule

        return LowRankConnectionsModule(self, width)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        return Tally(), self._gates(width, rows)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        return self._gates(width, rows) + matrix("write", self.count * width, self.count, rows, role="replicate")

    def _gates(self, width: int, rows: int) -> Tally:
        """What the gates of features cost."""
        side_by_side = self.count * width
        parts = Tally({"gain": Weight((side_by_side,), "replicate", "zeros")})
        parts += matrix("down", side_by_side, self.rank, rows, role="replicate")
        parts += matrix("up", self.rank, side_by_side, rows, role="replicate")
        inner = {
            "activation": ACTIVATIONS["silu"].cost(self.rank, rows),
            "gates": ACTIVATIONS["sigmoid"].cost(side_by_side, rows, gated=True),
        }
        return parts + total(inner)
