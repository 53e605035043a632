"""The module of MiniMax's block indexer."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.block_indexer import BlockIndexer
from anyformer.parts.call.context import Context


class BlockIndexerModule(nn.Module):
    """(B, T, D) -> index queries (B, T, K, E) and index keys (B, T, E)."""

    def __init__(self, indexer: BlockIndexer, width: int, groups: int) -> None:
        super().__init__()
        self.indexer, self.groups = indexer, groups
        self.query = nn.Linear(width, groups * indexer.head_width, bias=False)
        self.key = nn.Linear(width, indexer.head_width, bias=False)
        self.query_norm, self.key_norm = (
            indexer.norm.build(indexer.head_width) if indexer.norm else nn.Identity() for _ in range(2)
        )
        self.rotary = Digested.of(indexer.rotary) if indexer.rotary else None

    def extra_repr(self) -> str:
        return f"block={self.indexer.block}, keep={self.indexer.keep}, local={self.indexer.local}"

    def forward(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        k_BT1E = context.rotated(self.key_norm(self.key(x_BTD))[:, :, None], self.rotary)
        q_BTKE = self.query_norm(self.query(x_BTD).unflatten(-1, (self.groups, -1)))
        return context.rotated(q_BTKE, self.rotary), k_BT1E[:, :, 0]
