"""The modules of ways of choosing the keys of each query."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.chosen_keys import Chosen, choose
from anyformer.parts.attention.index_loss import index_loss, report_index
from anyformer.parts.attention.indexer import CHOSEN, Indexer, SharedIndex
from anyformer.parts.call.context import Context, Visible


class KeyChoiceModule(nn.Module):
    """The base of modules that choose keys."""

    def index(self, x_BTD: Tensor, context: Context) -> Tensor | None:
        """The index keys (B, 1, T, E) that the decode state holds; None without any."""
        return None

    def forward(self, x_BTD: Tensor, c_BTQ: Tensor, index_B1SE: Tensor | None, visible: Visible, context: Context) -> Chosen:
        """The keys of each query, of those that are visible; c: what queries are made of."""
        raise NotImplementedError

    def wants(self, context: Context) -> bool:
        """Whether it is to be told the attention weights of this call (`report`)."""
        return False

    def report(self, chosen: Chosen, share_BTk: Tensor, context: Context) -> None:
        """Report the loss of its scores; `share`: the mean over heads of the attention weights of the chosen keys."""


class SharedIndexModule(KeyChoiceModule):
    """It has no weights."""

    def __init__(self, choice: SharedIndex) -> None:
        super().__init__()
        self.variant = choice.variant

    def forward(self, x_BTD: Tensor, c_BTQ: Tensor, index_B1SE: Tensor | None, visible: Visible, context: Context) -> Chosen:
        chosen: Chosen = context.shared[self.variant, CHOSEN]
        return chosen


class IndexerModule(KeyChoiceModule):
    """(B, T, D) and (B, T, Q) -> `Chosen`."""

    def __init__(self, indexer: Indexer, width: int, query_width: int, name: str) -> None:
        super().__init__()
        self.indexer, self.name = indexer, name
        self.query = nn.Linear(query_width, indexer.heads * indexer.head_width, bias=False)
        self.key = nn.Linear(width, indexer.head_width, bias=False)
        self.weights = nn.Linear(width, indexer.heads, bias=False)
        self.norm = indexer.norm.build(indexer.head_width) if indexer.norm else nn.Identity()
        self.rotary = Digested.of(indexer.rotary) if indexer.rotary else None

    def extra_repr(self) -> str:
        return f"keep={self.indexer.keep}, heads={self.indexer.heads}, head_width={self.indexer.head_width}"

    def index(self, x_BTD: Tensor, context: Context) -> Tensor | None:
        key_BT1E = context.rotated(self.norm(self.key(x_BTD.detach()))[:, :, None], self.rotary)
        return context.gathered(key_BT1E).transpose(1, 2)

    def forward(self, x_BTD: Tensor, c_BTQ: Tensor, index_B1SE: Tensor | None, visible: Visible, context: Context) -> Chosen:
        assert index_B1SE is not None, "made by `index`"
        q = self.query(c_BTQ.detach()).unflatten(-1, (self.indexer.heads, -1))
        q = context.rotated(q, self.rotary)
        weights = self.weights(x_BTD.detach()) * (self.indexer.heads * self.indexer.head_width) ** -0.5
        chosen = choose(q, index_B1SE[:, 0].to(q.dtype), weights, visible, self.indexer.keep)
        if context.variant is not None:
            context.leave(CHOSEN, chosen)
        return chosen

    def wants(self, context: Context) -> bool:
        return context.auxiliary is not None

    def report(self, chosen: Chosen, share_BTk: Tensor, context: Context) -> None:
        report_index(self.name, index_loss(chosen.scores, chosen.allowed, share_BTk), context)
