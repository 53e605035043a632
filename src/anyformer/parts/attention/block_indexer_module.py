"""The module of MiniMax's block indexer."""

from __future__ import annotations

from torch import Tensor

from anyformer.parts.attention.block_indexer import BlockIndexer
from anyformer.parts.attention.indexed_blocks_module import IndexedBlocksModule
from anyformer.parts.call.context import Context


class BlockIndexerModule(IndexedBlocksModule):
    """(B, T, D) -> index queries (B, T, K, E) and index keys (B, T, E)."""

    def __init__(self, indexer: BlockIndexer, width: int, groups: int) -> None:
        super().__init__(indexer, width, groups)
        self.local = indexer.local

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, local={self.local}"

    def forward(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        k_BT1E = context.rotated(self.key_norm(self.key(x_BTD))[:, :, None], self.rotary)
        return self.asking(x_BTD, context), k_BT1E[:, :, 0]
