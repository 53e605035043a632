"""The lightning indexer over entries: those that each query attends to, by the scores of small entries of its own."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Count, Digested
from anyformer.operations import Shape, Tally, matrix, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.chosen_keys import Chosen, choose
from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.index_loss import index_loss, report_index
from anyformer.parts.attention.indexer import index_work
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.entry_state import EntryState
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Drawn, Sketch, chain


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


class EntryIndexerModule(nn.Module):
    """(B, T, D) and (B, T, Q) -> the `Chosen` entries."""

    def __init__(self, part: EntryIndexer, compressor: Compressor, width: int, query_width: int, name: str) -> None:
        super().__init__()
        self.part, self.name = part, name
        self.query = nn.Linear(query_width, part.heads * part.head_width, bias=False)
        self.weights = nn.Linear(width, part.heads, bias=False)
        self.compressor = compressor.build(width, part.head_width, part.rotary)
        self.rotary = Digested.of(part.rotary) if part.rotary else None

    def extra_repr(self) -> str:
        return f"keep={self.part.keep}, heads={self.part.heads}, head_width={self.part.head_width}"

    def forward(self, x_BTD: Tensor, c_BTQ: Tensor, seen_BTn: Tensor, context: Context, state: EntryState | None) -> Chosen:
        """`seen`: the entries that each query may choose from."""
        entries = self.compressor(x_BTD.detach(), context, state).features
        q = context.rotated(self.query(c_BTQ.detach()).unflatten(-1, (self.part.heads, -1)), self.rotary)
        weights = self.weights(x_BTD.detach()) * (self.part.heads * self.part.head_width) ** -0.5
        return choose(q, entries.to(q.dtype), weights, Visible(seen_BTn[:, None]), self.part.keep)

    def report(self, chosen: Chosen, share_BTk: Tensor, context: Context) -> None:
        """Report the loss of its scores; `share`: the mean over heads of the attention weights of the chosen entries."""
        allowed = chosen.allowed
        # A query that has passed no block chose nothing: a softmax over nothing is NaN, and so is its gradient.
        scores = chosen.scores.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
        share = share_BTk.masked_fill(~allowed, 0.0)
        share = share / share.sum(-1, keepdim=True).clamp(min=1e-30)
        report_index(self.name, index_loss(scores, allowed, share), context)
