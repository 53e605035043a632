"""Relative logits: a number per distance back that the content of the query alone decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, matrix
from anyformer.parts.attention.score_bias import ScoreBias
from anyformer.parts.slot import HeadSizes

if TYPE_CHECKING:
    from anyformer.parts.attention.relative_logits_module import RelativeLogitsModule


class RelativeLogits(ScoreBias):
    """Scores q_t k_s * scale + r_t p_(t-s), r_t = x_t W_r per head, for 0 <= t - s < n (Inkling; transformers 5.23).

    W_r: (D, H * P); p: (n, P), the same for all heads: P profiles over the distance, which a token mixes as it likes. Keys
    farther away, and later ones, get 0. A temperature of the attention multiplies q_t alone. Nothing is kept for decoding but
    the positions of keys.
    """

    position_name: ClassVar[str] = "relative"
    kind: Literal["relative_logits"] = "relative_logits"
    features: Count = 16
    """Features of r_t, P."""
    extent: Count = 1024
    """n, distances that have a number of their own."""

    def module(self, sizes: HeadSizes) -> RelativeLogitsModule:
        from anyformer.parts.attention.relative_logits_module import RelativeLogitsModule

        return RelativeLogitsModule(self, sizes)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        H, rows = sizes.heads, shape.rows
        parts = matrix("states", sizes.inputs, H * self.features, rows, role="column")
        return parts + matrix("profiles", self.features, self.extent, rows * H, role="replicate")
