"""Talking heads: scores and weights of each pair of positions mixed over the heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Contraction, Shape, Tally, Weight
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


MIXES = ("talking_before", "talking_after")


class TalkingHeads(Map):
    """a = P_after softmax(P_before s where visible), P: (H, H), over the heads of each query and key (Shazeer et al. 2020,
    arXiv 2003.02436): s, a (B, H, T, S). The paper's P_l is `talking_before`, its P_w `talking_after`."""

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {"divided heads", "layout", "pairs of heads"}
    kind: Literal["talking_heads"] = "talking_heads"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        return parameters(dict.fromkeys(MIXES, (sizes.heads, sizes.heads)))

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally({name: Weight((sizes.heads, sizes.heads), "replicate", "matrix", linear=False) for name in MIXES})

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        mixed = Contraction(2 * shape.batch * sizes.heads**2 * pairs)
        return Tally(own_work=dict.fromkeys(MIXES, mixed))

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.talking_heads_module import talked

        before, after = map(call.built, MIXES)
        return talked(scores_BHTS, allowed, before, after)
