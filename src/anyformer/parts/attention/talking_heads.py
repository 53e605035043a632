"""Talking heads: scores and weights of each pair of positions mixed over the heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from anyformer.operations import Contraction, Shape, Tally, Weight
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map
from anyformer.parts.slot import HeadSizes, Way

MIXES = ("talking_before", "talking_after")


class TalkingHeads(Map):
    """a = P_after softmax(P_before s where visible), P: (H, H), over the heads of each query and key (Shazeer et al. 2020,
    arXiv 2003.02436): s, a (B, H, T, S). The paper's P_l is `talking_before`, its P_w `talking_after`."""

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {"divided heads", "layout", "pairs of heads"}
    kind: Literal["talking_heads"] = "talking_heads"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {name: nn.Parameter(torch.empty(sizes.heads, sizes.heads)) for name in MIXES}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally({name: Weight((sizes.heads, sizes.heads), "replicate", "matrix", linear=False) for name in MIXES})

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        mixed = Contraction(2 * shape.batch * sizes.heads**2 * pairs)
        return Tally(own_work=dict.fromkeys(MIXES, mixed))

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        before, after = (call.built(name).to(scores_BHTS.dtype) for name in MIXES)
        said_BHTS = torch.einsum("gh, bhts -> bgts", before, scores_BHTS)
        if allowed is not None:
            said_BHTS = said_BHTS.masked_fill(~allowed, float("-inf"))
        return torch.einsum("gh, bhts -> bgts", after, said_BHTS.softmax(-1))
