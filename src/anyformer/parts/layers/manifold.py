"""Manifold-constrained hyper-connections: streams that a step mixes by a doubly stochastic matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.operations import Contraction, Tally, Weight, matrix
from anyformer.parts.layers.merged_streams import MergedStreams
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from anyformer.parts.layers.manifold_module import ManifoldConnectionsModule


class ManifoldConnections(MergedStreams):
    """N residual streams of which a step leaves x_n = sum_k R_kn x_k + w_n f(h), h = sum_n m_n x_n, R doubly stochastic.

    Xie et al. 2025 (arXiv 2512.24880, mHC), as DeepSeek-V4 and GLM-5.3 have it. With v the N streams side by side (N * D),
    normalised without a gain, and (u, z, Q) = v W + b split:

        m = sigmoid(s_1 u) + eps     w = 2 sigmoid(s_2 z)     R = Sinkhorn(softmax(s_3 Q) + eps)

    where s scales the part of W and not b. Sinkhorn divides columns by their sums + eps, then rows and columns in turn until it
    has divided the columns `iterations` times, so no mix lets the streams grow. The paper's H_pre, H_post, H_res are m, w, R.
    All this is computed in fp32. A pass costs more time than plain hyper-connections: the matrix is small and the steps many.
    """

    kind: Literal["manifold_connections"] = "manifold_connections"
    iterations: Count = 20

    def sketch(self, width: int) -> Sketch:
        fact = f"{self.count} residual streams, mixed by doubly stochastic matrices of each token"
        return Sketch("Manifold hyper-connections", (fact,))

    def build(self, width: int, index: int, inputs: Inputs = None) -> ManifoldConnectionsModule:
        from anyformer.parts.layers.manifold_module import ManifoldConnectionsModule

        return ManifoldConnectionsModule(self, width)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        N = self.count
        mixed = Contraction(2 * rows * N * N * width)
        weights = {"strength": Weight((3,), "replicate", 0.01), "static": Weight((N * (N + 2),), "replicate", "zeros")}
        return matrix("dynamic", N * width, N * (N + 2), rows, role="replicate") + Tally(weights, {"mix": mixed})
