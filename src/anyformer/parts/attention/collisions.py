"""Weights by collisions of hashes: how often random hyperplanes put a query and a key on the same side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map

if TYPE_CHECKING:
    from torch import Tensor


class Collisions(Map):
    """a_ij = (1 - arccos(s_ij) / pi)^n, s_ij the cosine of query i and key j, within [-1, 1]: (B, H, T, S).

    The chance that n hyperplanes at random all have both on one side, so that drawn hashes of n bits have these weights in the
    mean (YOSO, Zeng et al. 2021, arXiv 2111.09714, section 3.2, whose tau is n). Backwards da/ds is n a / 2, the paper's bound
    of a derivative that has no bound at a cosine of 1. The weights of a query need not add up to 1: norm what is mixed
    (`MixedNorm`), as queries and keys (`QKNorm`).
    """

    kind: Literal["collisions"] = "collisions"
    bits: Count = 9
    """Bits of a hash."""

    @property
    def each(self) -> int:
        return 5

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        weights_BHTS = (1 - scores_BHTS.detach().clamp(-1, 1).acos() / math.pi) ** self.bits
        weights_BHTS = weights_BHTS if allowed is None else weights_BHTS.masked_fill(~allowed, 0.0)
        # Forwards the second factor is 1; backwards it has the derivative.
        return weights_BHTS * (1 + self.bits / 2 * (scores_BHTS - scores_BHTS.detach()))
