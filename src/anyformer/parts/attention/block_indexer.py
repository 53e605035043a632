"""MiniMax's block indexer: the blocks of keys that a query and a head of keys attend to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.operations import Dimension, Pairs, Shape, Tally, matrix
from anyformer.parts.attention.block_choice import SEEN
from anyformer.parts.attention.indexed_blocks import IndexedBlocks
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.sketch import Cell, Sketch, chain
from anyformer.parts.slot import HeadSizes

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.block_indexer_module import BlockIndexerModule
    from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
    from anyformer.parts.call.context import Memory, Visible


class BlockIndexer(IndexedBlocks):
    """The n blocks of b positions with the greatest index score, I_tkj = max over s of block j, s <= t, of q_tk . k_s.

        q = rotate(norm(x W_q)): (B, T, K, E), one query per head of keys; k = rotate(norm(x W_k)): (B, S, E), for all

    (MiniMax-M3: b = 128, n = 16, E = 128; Native Sparse Attention, Yuan et al. 2025, arXiv 2502.11089, chooses blocks by pooled
    keys.) The choice has no gradient, and x none through it. What trains it is the `index_loss` of the objective, that of the
    lightning indexer by blocks: the mean over queries and heads of keys of KL(p || softmax(I)) over the chosen blocks, p the
    share of attention that falls on each. How MiniMax trained it is not public, so this loss is a stand-in.
    """

    kind: Literal["block_indexer"] = "block_indexer"
    local: Annotated[int, Field(ge=0)] = 1
    """Of the n blocks, the latest, which are always kept: 1 is the query's own block."""

    def sketch(self, width: int) -> Sketch:
        norm = None if self.norm is None else Cell("norm", "norm")
        best = Cell(f"best {self.keep:,} blocks of {self.block:,} keys", "choice")
        return Sketch("Block indexer", (), chain(norm, Cell(f"index scores, {self.head_width} features"), best))

    def build(self, sizes: HeadSizes) -> BlockIndexerModule:
        from anyformer.parts.attention.block_indexer_module import BlockIndexerModule

        return BlockIndexerModule(self, sizes.width, sizes.groups)

    def cost(self, sizes: HeadSizes, shape: Shape) -> Tally:
        B, T, K, E, rows = shape.batch, shape.length, sizes.groups, self.head_width, shape.rows
        queries: Dimension = (("kv_heads", K), ("features", E))
        parts = matrix("query", sizes.width, K * E, rows, role="replicate", constant=True, outputs_as=queries)
        parts += matrix("key", sizes.width, E, rows, role="replicate", constant=True)
        pairs, exact = T * shape.keys, SEEN.pairs(shape)
        chosen = T * min(self.keep, self.blocks(shape.keys))
        # The backward pass has two products for the one key of each chosen block.
        scores = Pairs(B, K, E, pairs, exact, T, "features", no_gradient=4 * B * K * E * (pairs - chosen))
        return parts + Tally(own_work={"scores": scores}) + self.placing(rows * K, rows)

    def chosen(self, q_BHTE: Tensor, memory: Memory, visible: Visible, where: Places, call: AttentionCall) -> ChosenBlocks:
        from anyformer.parts.attention.chosen_blocks import choose_blocks
        from anyformer.parts.attention.indexed_blocks_module import all_keys

        asking, index = call.built("choice")(call.x.detach(), call.context)
        index = all_keys(index, call)
        return choose_blocks(asking, index.to(asking.dtype), visible, where, size=self.block, keep=self.keep, local=self.local)

    def report(self, chosen: ChosenBlocks, share_BTKn: Tensor, call: AttentionCall) -> None:
        from anyformer.parts.attention.index_loss import index_loss, report_index

        report_index(call.attention.path, index_loss(chosen.scores, chosen.allowed, share_BTKn).mean(-1), call.context)
