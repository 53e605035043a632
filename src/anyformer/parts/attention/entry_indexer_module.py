"""The module of the lightning indexer over entries."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.chosen_keys import Chosen, choose
from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.entry_indexer import EntryIndexer
from anyformer.parts.attention.index_loss import index_loss, report_index
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.entry_state import EntryState


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
        """`seen`: the entries that a query may choose from."""
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
