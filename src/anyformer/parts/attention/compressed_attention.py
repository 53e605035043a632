"""Compressed attention: a window of keys, and entries that stand for many keys each, all of them or those chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Dimension, Shape, StateBytes, Tally, Weight, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.compressed_heads import CompressedHeads
from anyformer.parts.attention.heads_sketch import heads_cell, rotary_cell
from anyformer.parts.attention.pair_work import pair_work
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.attention.compressed_module import CompressedAttentionModule


class CompressedAttention(CompressedHeads):
    """Attention to the latest keys, and to an entry per block of m earlier ones (DeepSeek-V4, arXiv 2606.19348, 2.3).

        q = rotate(norm(c W_uq)) per head, c = norm(x W_dq): (B, T, H, E); k = rotate(norm(x W_k)): (B, S, E), for all heads
        e: entries of the `Compressor`, (B, S / m, E); what stands in the softmax is its own value
        rotate back(softmax([q k^T, q e^T] * scale, where in the window, and where the block is passed) [k, e]), then the output

    With a choice of entries (m = 4, the paper's compressed sparse attention), time and memory of attention grow with the window
    and the k chosen ones per query; without it (m = 128, heavily compressed attention) with the window and all entries.
    The decode state has a window of keys, S / m entries and the tokens of the next ones.
    """

    kind: Literal["compressed_attention"] = "compressed_attention"

    def sketch(self, width: int) -> Sketch:
        H, E, norm = self.heads, self.head_width, None if self.norm is None else Cell("norm", "norm")
        small = None if self.q_rank is None else chain(Cell(f"latent {number(self.q_rank)}"), norm)
        query = chain(small, heads_cell("Q", H, E, 1), None if self.head_norm is None else Cell("norm per head", "norm"))
        made = None if self.compressor is None else Cell(f"entries {number(E)} · {self.compressor.words}", "memory")
        best = None if self.choice is None else Cell(f"best {number(self.choice.keep)} entries", "choice")
        read = fan(query, chain(Cell(f"K = V {number(E)}"), norm), None if made is None else chain(made, best))
        mixed = Cell(f"softmax · {self.mask.words}" + ("" if self.sink is None else " · a sink per head"), "mix")
        grouped = self.output
        narrow = None if grouped is None else Cell(f"{grouped.groups} × {number(grouped.rank)}", count=grouped.groups)
        flow = chain(read, rotary_cell(self.rotary), mixed, narrow, Cell(f"output {number(width)}"))
        return Sketch("Compressed attention", (), flow)

    def build(self, width: int, plan: Plan, name: str) -> CompressedAttentionModule:
        from anyformer.parts.attention.compressed_module import CompressedAttentionModule

        return CompressedAttentionModule(self, width, plan, name)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        H, E, rows = self.heads, self.head_width, shape.rows
        latent = self.q_rank or width
        queries: Dimension = (("heads", H), ("features", E))
        parts = matrix("query_up", latent, H * E, rows, role="column", outputs_as=queries)
        if self.q_rank is not None:
            parts += matrix("query_down", width, self.q_rank, rows, role="replicate")
        parts += matrix("key", width, E, rows, role="replicate")
        if self.output is None:
            parts += matrix("output", H * E, width, rows, role="row", fill="residual", inputs_as=queries)
        parts += pair_work(shape, H, E, E, *self.pairs(shape, plan))
        if self.sink is not None:
            axes: tuple[Dimension, ...] = ((("heads", H),),)
            parts += Tally({"sink": Weight((H,), "column", "zeros", axes=axes)})
        if self.rotary is not None:
            # Queries, the key, and what is mixed.
            parts += Tally(own_work={"rotary": rotated(rows * self.rotary.rotated(E) * (2 * H + 1))})
        return parts + total(self._inner(width, shape)) + Tally(own_state=self._held(shape, plan), own_limits=self.limits)

    def _inner(self, width: int, shape: Shape) -> dict[str, Tally]:
        """The tallies of its parts by name."""
        E, rows, inner = self.head_width, shape.rows, dict[str, Tally]()
        if self.norm is not None:
            inner["key_norm"] = self.norm.cost(E, rows)
            if self.q_rank is not None:
                inner["query_norm"] = self.norm.cost(self.q_rank, rows)
        if self.head_norm is not None:
            inner["head_norm"] = self.head_norm.cost(E, rows * self.heads)
        if self.compressor is not None:
            inner["compressor"] = self.compressor.cost(width, E, self.rotary, shape)
            if self.choice is not None:
                inner["choice"] = self.choice.cost(self.compressor, width, self.q_rank or width, shape)
        if self.output is not None:
            inner["output"] = self.output.cost(self.heads * E, width, rows)
        return inner

    def _held(self, shape: Shape, plan: Plan) -> StateBytes:
        """A step reads the keys and entries that its query sees, the index entries that it chooses from, and the tails."""
        number_bytes, read = shape.batch * plan.activation_bytes, self.head_width * self.pairs(shape, plan)[1]
        if self.compressor is not None:
            for features in self.widths.values():
                tokens, each = self.compressor.tail(features)
                read += tokens * each
            if self.choice is not None:
                read += self.choice.head_width * self.compressor.seen(shape)
        return StateBytes.of(shape, number_bytes * self.numbers(shape.cache_length), number_bytes * read)
