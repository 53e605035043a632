"""Alternating updates: several residual streams, of which a layer computes one, and predicts and corrects the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from anyformer.operations import Contraction, Product, Tally, matrix, total
from anyformer.operations.elementwise import normalised
from anyformer.parts.layers.step import Step
from anyformer.parts.layers.streams import Streams
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch

if TYPE_CHECKING:
    from anyformer.parts.layers.alternating_module import AlternatingEnds, AlternatingUpdatesModule


class AlternatingUpdates(Streams):
    """N residual streams, of which layers compute the first (AltUp: Baykal et al. 2023, arXiv 2301.13310), as in Gemma 3n.

    A layer f predicts p_n = x_n + sum_k P(x_0)_nk x_k of all streams, computes h = f(p_0), and leaves p_n corrected by what
    it found, p_n + (1 + C(h)_n) (h - p_0). The coefficients are those of a router of N numbers, r(x) = tanh(norm(x) W_r / D):

        P(x) = r(x) W_P, (N, N)     C(x) = r(x) W_C, (N,)

    Stream 0 starts as the input and any other as its product with a matrix (D, D); at the end each of these is multiplied by
    another matrix, and the mean of all is taken. These products are scaled to the root mean square of stream 0. The paper has
    learned numbers for P and C, embeddings of N * D features, and layers that compute the streams in turn.

    A step of a layer with `residual = "inactive"` stands behind the correction: its branches read stream 0 and are added to the
    others.
    """

    kind: Literal["alternating_updates"] = "alternating_updates"
    norm: Norm = RMSNorm()
    """Of what the router reads."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("Alternating updates", (f"{self.count} residual streams", "the first computed, the others predicted"))

    def problem(self, steps: Sequence[Step]) -> str | None:
        if steps[0].residual == "inactive":
            return "a step with residual = 'inactive' stands behind those that compute a layer: give {} one before it"
        if steps[0].residual == "detached":
            return "residual = 'detached' cuts one stream off and leaves the others: take it out of {}"
        return None

    def build_ends(self, width: int) -> AlternatingEnds:
        from anyformer.parts.layers.alternating_module import AlternatingEnds

        return AlternatingEnds(self, width)

    def build(self, width: int) -> AlternatingUpdatesModule:
        """The module of a layer."""
        from anyformer.parts.layers.alternating_module import AlternatingUpdatesModule

        return AlternatingUpdatesModule(self, width)

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        return self._end_cost(width, rows), self._end_cost(width, rows)

    def _end_cost(self, width: int, rows: int) -> Tally:
        others = [matrix(str(n), width, width, rows, role="replicate") for n in range(self.count - 1)]
        first, scaled = normalised(width, rows, 2 * width + 1), normalised(width, (self.count - 1) * rows, 3 * width + 2)
        return sum(others, Tally(own_work={"first_size": first, "scaled": scaled}))

    def cost(self, width: int, rows: int) -> Tally:
        """The weights and the work of a layer's module."""
        N = self.count
        return (
            matrix("router", width, N, rows, role="replicate", sensitive=True)
            + matrix("prediction", N, N * N, rows, role="replicate", sensitive=True)
            + matrix("correction", N, N, rows, role="replicate", sensitive=True)
            + total({"norm": self.norm.cost(width, 2 * rows)})
            # The router reads stream 0 before the layer, and again what the layer made of it.
            + Tally(
                own_work={
                    "router_behind": Product(rows, width, N, "replicate"),
                    "predicted": Contraction(2 * rows * N * N * width),
                }
            )
        )
