"""A block indexer of pooled keys: the whole blocks of the best mean keys, and what is not yet a whole block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.operations import Elementwise, Operation, Pairs, Shape, Tally, matrix
from anyformer.parts.attention.indexed_blocks import IndexedBlocks
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.sketch import Cell, Sketch, chain
from anyformer.parts.slot import HeadSizes
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
    from anyformer.parts.attention.pooled_indexer_module import PooledIndexerModule
    from anyformer.parts.call.context import Memory, Visible


class PooledIndexer(IndexedBlocks):
    """The n whole blocks of b positions with the greatest I_tj = E^-0.5 sum_h relu(q_th . k_j), and behind them what is left.

        q = rotate(norm(x W_q)): (B, T, J, E), J index heads; k_j = rotate(norm(mean over block j of x W_k)): (B, S / b, E)

    turned at the first position of the block; one choice for all heads. A block is whole if it ends at or before t, and the
    positions behind the last whole block are always seen, so that a query has n * b + b - 1 keys at most (QSA of Qwen4-Exp;
    transformers 5.23, `qwen4_exp`). The choice has no gradient, and x none through it; the `index_loss` of the objective trains
    it as it does `BlockIndexer`, KL(p || softmax(I)) over the chosen whole blocks. How Qwen trained it is not public.
    """

    kind: Literal["pooled_indexer"] = "pooled_indexer"
    heads: Count = 4
    """Index heads J."""

    def sketch(self, width: int) -> Sketch:
        norm = None if self.norm is None else Cell("norm", "norm")
        best = Cell(f"best {self.keep:,} whole blocks of {self.block:,} keys, and the rest", "choice")
        return Sketch("Pooled indexer", (), chain(norm, Cell(f"{self.heads} heads × mean key of each block"), best))

    @property
    def most(self) -> int:
        return (self.keep + 1) * self.block

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        n, b = self.keep, self.block

        def of_first(queries: int) -> int:
            """The keys of the first queries of a row: with s = t + 1, min(s // b, n) * b + s % b of each."""
            whole, rest = divmod(queries + 1, b)
            few = min(whole, n)
            blocks = b * (few * (few - 1) // 2 + (whole - few) * n) + rest * few
            return blocks * b + whole * b * (b - 1) // 2 + rest * (rest - 1) // 2

        keys = self.most if self.leaves_out(shape.keys, plan) else shape.keys
        return shape.length * keys, of_first(shape.past + shape.length) - of_first(shape.past)

    def build(self, sizes: HeadSizes) -> PooledIndexerModule:
        from anyformer.parts.attention.pooled_indexer_module import PooledIndexerModule

        return PooledIndexerModule(self, sizes.width)

    def cost(self, sizes: HeadSizes, shape: Shape) -> Tally:
        B, T, J, E, rows = shape.batch, shape.length, self.heads, self.head_width, shape.rows
        parts = matrix("query", sizes.width, J * E, rows, role="replicate", constant=True)
        parts += matrix("key", sizes.width, E, rows, role="replicate", constant=True)
        blocks, keys = self.blocks(shape.keys), B * shape.keys * E
        seen = sum((shape.past + t + 1) // self.block for t in range(T))
        work: dict[str, Operation] = {
            "scores": Pairs(B, J, E, T * blocks, seen, T, "features"),
            "means": Elementwise("activations", keys, keys, keys),
        }
        return parts + Tally(own_work=work) + self.placing(rows * J, B * blocks)

    def chosen(self, q_BHTE: Tensor, memory: Memory, visible: Visible, where: Places, call: AttentionCall) -> ChosenBlocks:
        from anyformer.parts.attention.pooled_indexer_module import chosen

        return chosen(self, memory, where, call)

    def report(self, chosen: ChosenBlocks, share_BTKn: Tensor, call: AttentionCall) -> None:
        from anyformer.parts.attention.index_loss import report_index
        from anyformer.parts.attention.pooled_indexer_module import loss

        report_index(call.attention.path, loss(chosen, share_BTKn), call.context)
