"""Independent hyper-connections: streams that steps read and write with weights of the token, and never mix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Positive
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.layers.merged_streams import MergedStreams
from anyformer.parts.sketch import Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from anyformer.parts.layers.independent_module import IndependentConnectionsModule


class IndependentConnections(MergedStreams):
    """N residual streams of which a step leaves x_n + w_n f(h), h = sum_n m_n x_n: each keeps its own past.

    Hy4 of Tencent (iHC; transformers 5.23, `hy_v4`): `ManifoldConnections` without the N by N matrix of each token. With v the
    N streams side by side, normalised without a gain, and (u, z) = v W + b split:

        m = sigmoid(s_1 u) + eps     w = magnitude * sigmoid(s_2 z) + eps

    where s scales the part of W and not b, computed in fp32. Without s v W and b all streams are equal, and a step is a
    plain residual one.
    """

    kind: Literal["independent_connections"] = "independent_connections"
    magnitude: Positive = 2.0
    """The bound of w; 2 starts at w = 1."""

    def sketch(self, width: int) -> Sketch:
        fact = f"{self.count} residual streams, read and written with weights of each token, never mixed"
        return Sketch("Independent hyper-connections", (fact,))

    def build(self, width: int, index: int, inputs: Inputs = None) -> IndependentConnectionsModule:
        from anyformer.parts.layers.independent_module import IndependentConnectionsModule

        return IndependentConnectionsModule(self, width)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        N = self.count
        weights = {"strength": Weight((2,), "replicate", 0.01), "static": Weight((2 * N,), "replicate", "zeros")}
        return matrix("dynamic", N * width, 2 * N, rows, role="replicate") + Tally(weights)
