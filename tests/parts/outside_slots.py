"""Parts of attention's slots as somebody outside the package writes them, from what is documented alone: one class each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from anyformer.operations import Contraction, Pairs, Shape, Tally, Weight
from anyformer.parts import AttentionCall, Combine, Map
from anyformer.parts.attention.block_choice import SEEN, BlockChoice
from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places, choose_blocks
from anyformer.parts.call.context import Memory, Visible
from anyformer.parts.slot import HeadSizes, Way


class OutsideTalkingHeads(Map):
    """a = P_after softmax(P_before s where visible), P: (H, H) (Shazeer et al. 2020, arXiv 2003.02436)."""

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {"divided heads", "layout", "pairs of heads"}
    kind: Literal["outside_talking_heads"] = "outside_talking_heads"

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {name: nn.Parameter(torch.empty(sizes.heads, sizes.heads)) for name in ("talking_before", "talking_after")}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        square = Weight((sizes.heads, sizes.heads), "replicate", "matrix", linear=False)
        return Tally(dict.fromkeys(("talking_before", "talking_after"), square))

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        each = Contraction(2 * shape.batch * sizes.heads**2 * pairs)
        return Tally(own_work={"talking_before": each, "talking_after": each})

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        before, after = (call.built(f"talking_{name}").to(scores_BHTS.dtype) for name in ("before", "after"))
        said = (before @ scores_BHTS.flatten(2)).view_as(scores_BHTS)
        said = said if allowed is None else said.masked_fill(~allowed, float("-inf"))
        return (after @ said.softmax(-1).flatten(2)).view_as(scores_BHTS)


class OutsideExclusive(Combine):
    """y' = y - tanh(w) (y . v) v / |v|^2, v the value of the same token, w: (H) from 0."""

    name: ClassVar[str] = "outside_exclusive"
    order: ClassVar[int] = -2
    needs_own_keys: ClassVar[bool] = True

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {"outside_strength": nn.Parameter(torch.empty(sizes.heads))}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        return Tally({"outside_strength": Weight((sizes.heads,), "column", "zeros", axes=((("heads", sizes.heads),),))})

    def mixed(self, y_BHTU: Tensor, call: AttentionCall) -> Tensor:
        own = call.values.transpose(1, 2).repeat_interleave(y_BHTU.shape[1] // call.values.shape[2], 1)
        strength = call.built("outside_strength").tanh()[:, None, None]
        return y_BHTU - strength * (y_BHTU * own).sum(-1, keepdim=True) / own.square().sum(-1, keepdim=True) * own


class OutsideIndexer(BlockChoice):
    """The n blocks with the greatest max over s of block j, s <= t, of q_tk . k_s: q_tk the mean of the queries that read key
    head k, k_s the mean of all key heads."""

    kind: Literal["outside_indexer"] = "outside_indexer"

    def choosing(self, heads: int, groups: int) -> int:
        return groups

    def cost(self, sizes: HeadSizes, shape: Shape) -> Tally:
        B, T, K, E, pairs = shape.batch, shape.length, sizes.groups, sizes.head_width, shape.length * shape.keys
        scores = Pairs(B, K, E, pairs, SEEN.pairs(shape), T, "features", no_gradient=4 * B * K * E * pairs)
        return Tally(own_work={"scores": scores})

    @torch.no_grad()
    def chosen(self, q_BHTE: Tensor, memory: Memory, visible: Visible, where: Places, call: AttentionCall) -> ChosenBlocks:
        q_BTKE = q_BHTE.unflatten(1, (memory.key.shape[1], -1)).mean(2).transpose(1, 2)
        k_BSE = memory.key.mean(1).to(q_BTKE.dtype)
        return choose_blocks(q_BTKE, k_BSE, visible, where, size=self.block, keep=self.keep, local=1)
