"""The base of ways of choosing blocks by index queries and index keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, total
from anyformer.operations.elementwise import rotated
from anyformer.parts.attention.block_choice import SEEN, BlockChoice
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.slot import HeadSizes

if TYPE_CHECKING:
    from anyformer.parts.call.annotated_state import AnnotatedState
    from anyformer.parts.call.state import FullState


class IndexedBlocks(BlockChoice):
    """Index queries q: (B, T, J, E) and one index key per position k: (B, S, E), each normed and rotated."""

    learns: ClassVar[bool] = True
    kind: str
    head_width: Count = 128
    """E."""
    norm: Norm | None = None
    """Norm of index queries and keys."""
    rotary: Rotary | None = None
    """Rotation of index queries and keys."""

    def check(self, width: int) -> None:
        """Refuse features that cannot be normed or rotated."""
        if self.rotary is not None:
            self.rotary.rotated(self.head_width)
        if self.norm is not None:
            self.norm.check(self.head_width)

    def choosing(self, heads: int, groups: int) -> int:
        return groups

    def placing(self, queries: int, keys: int) -> Tally:
        """Weights and work of the norms and the rotation of so many index queries and keys."""
        E, work = self.head_width, Tally()
        if self.rotary is not None:
            work = Tally(own_work={"rotary": rotated((queries + keys) * self.rotary.rotated(E))})
        if self.norm is None:
            return work
        return work + total({"query_norm": self.norm.cost(E, queries), "key_norm": self.norm.cost(E, keys)})

    def held(self, sizes: HeadSizes, capacity: int) -> int:
        return self.head_width * capacity

    def read(self, sizes: HeadSizes, shape: Shape) -> int:
        return self.head_width * SEEN.pairs(shape)

    def state(self, keys: FullState, capacity: int) -> AnnotatedState:
        """The index key of each position beside its keys and values."""
        from anyformer.parts.attention.block_choice_module import beside
        from anyformer.parts.call.annotated_state import AnnotatedState

        return AnnotatedState(keys.key, keys.value, beside(keys, 1, capacity, self.head_width))
