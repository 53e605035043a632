"""The lightning indexer over entries: those that a query attends to, by the scores of small entries of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.indexer import index_work
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Drawn, Sketch, chain

if TYPE_CHECKING:
    from anyformer.parts.attention.entry_indexer_module import EntryIndexerModule


class EntryIndexer(Drawn):
    """The k entries of the greatest index score, I_ti = sum_j w_tj relu(q_tj . e_i) (DeepSeek-V4, arXiv 2606.19348, 2.3.1).

        q = rotate(c W_q): (B, T, J, E), c: latent of the queries; e: entries of E features of a compressor of its own, with the
        blocks of the attention's: (B, n, E); w = x W_w (J E)^-0.5

    The choice has no gradient, and x and c none through it. What trains it is the `index_loss` of the objective, as that of the
    lightning indexer: the mean over queries of KL(p || softmax(I)) over the chosen entries, p the share of attention on each of
    them, by itself: what falls on the window is left out. The paper's n_h^I is J = heads, c^I is E = head_width.
    """

    keep: Count = 512
    """k, entries of a query; all that it sees if they are no more."""
    heads: Count = 64
    head_width: Count = 128
    rotary: Rotary | None = None
    """Rotation of index queries and of their entries."""

    def sketch(self, width: int) -> Sketch:
        flow = chain(Cell(f"index scores {self.heads} × {self.head_width}"), Cell(f"best {self.keep:,} entries", "choice"))
        return Sketch("Lightning indexer of entries", (), flow)

    def check(self, compressor: Compressor) -> None:
        """Refuse features that cannot be rotated or normed."""
        if self.rotary is not None:
            self.rotary.rotated(self.head_width)
        compressor.check(self.head_width)

    def build(self, compressor: Compressor, width: int, query_width: int, name: str) -> EntryIndexerModule:
        from anyformer.parts.attention.entry_indexer_module import EntryIndexerModule

        return EntryIndexerModule(self, compressor, width, query_width, name)

    def cost(self, compressor: Compressor, width: int, query_width: int, shape: Shape) -> Tally:
        B, T, J, E, rows = shape.batch, shape.length, self.heads, self.head_width, shape.rows
        parts = matrix("query", query_width, J * E, rows, role="replicate", constant=True)
        parts += matrix("weights", width, J, rows, role="replicate", constant=True, sensitive=True)
        entries = compressor.entries(shape.keys)
        work = index_work(B, J, E, T * entries, compressor.seen(shape), T * min(self.keep, entries), T)
        if self.rotary is not None:
            work["rotary"] = rotated(rows * J * self.rotary.rotated(E))
        inner = {"compressor": compressor.cost(width, E, self.rotary, shape, constant=True)}
        return parts + Tally(own_work=work) + total(inner)
