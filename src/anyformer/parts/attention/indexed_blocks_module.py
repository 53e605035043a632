"""The base module of ways of choosing blocks by index queries and index keys."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.describe import Digested
from anyformer.parts.attention.indexed_blocks import IndexedBlocks
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.context import Context


class IndexedBlocksModule(nn.Module):
    """(B, T, D) -> index queries (B, T, J, E) and index keys (B, T, E)."""

    def __init__(self, indexer: IndexedBlocks, width: int, queries: int) -> None:
        super().__init__()
        self.indexer, self.queries, E = indexer, queries, indexer.head_width
        self.query, self.key = nn.Linear(width, queries * E, bias=False), nn.Linear(width, E, bias=False)
        self.query_norm, self.key_norm = (indexer.norm.build(E) if indexer.norm else nn.Identity() for _ in range(2))
        self.rotary = Digested.of(indexer.rotary) if indexer.rotary else None

    def extra_repr(self) -> str:
        return f"block={self.indexer.block}, keep={self.indexer.keep}"

    def asking(self, x_BTD: Tensor, context: Context) -> Tensor:
        """The index queries."""
        return context.rotated(self.query_norm(self.query(x_BTD).unflatten(-1, (self.queries, -1))), self.rotary)


def all_keys(index_BTE: Tensor, call: AttentionCall) -> Tensor:
    """The index keys of a call behind those of its state, which takes them over, (B, S, E)."""
    if call.state is None:
        return index_BTE
    assert isinstance(call.state, AnnotatedState), "as the choice made it"
    assert call.context.chunk is not None, "a stack with state enters its chunk first"
    return call.state.extend_beside(index_BTE[:, None], call.context.chunk)[:, 0]
