"""Relative logits: a number for each distance back that the content of the query alone decides."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, matrix
from anyformer.parts.attention.score_bias import ScoreBias
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.slot import HeadSizes


class RelativeLogits(ScoreBias):
    """Scores q_t k_s * scale + r_t p_(t-s), r_t = x_t W_r per head, for 0 <= t - s < n (Inkling; transformers 5.23).

    W_r: (D, H * P); p: (n, P), the same for all heads: P profiles over the distance, which each token mixes as it likes. Keys
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
        return RelativeLogitsModule(self, sizes)

    def work(self, sizes: HeadSizes, shape: Shape) -> Tally:
        H, rows = sizes.heads, shape.rows
        parts = matrix("states", sizes.inputs, H * self.features, rows, role="column")
        return parts + matrix("profiles", self.features, self.extent, rows * H, role="replicate")


class RelativeLogitsModule(nn.Module):
    def __init__(self, part: RelativeLogits, sizes: HeadSizes) -> None:
        super().__init__()
        self.extent = part.extent
        self.states = nn.Linear(sizes.inputs, sizes.heads * part.features, bias=False)
        self.profiles = nn.Linear(part.features, part.extent, bias=False)

    def forward(self, q_BHTE: Tensor, memory: Memory, context: Context, own: nn.Module | None, x_BTD: Tensor) -> Tensor:
        """(B, H, T, S)."""
        B, H, T, _ = q_BHTE.shape
        r_BTHP = self.states(x_BTD).view(B, T, H, -1)
        logits_BHTn = self.profiles(r_BTHP).transpose(1, 2)
        distance_B1TS = (context.positions[:, :, None] - memory.keys.positions[:, None, :])[:, None]
        near = (distance_B1TS >= 0) & (distance_B1TS < self.extent)
        index = distance_B1TS.clamp(0, self.extent - 1).expand(B, H, T, -1)
        logits: Tensor = logits_BHTn.gather(-1, index).masked_fill(~near, 0.0)
        return logits.float()
