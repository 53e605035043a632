"""The base of ways of choosing blocks of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from anyformer.describe import Count, Registry
from anyformer.operations import Shape, Tally
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.masks.simple import Causal
from anyformer.parts.sketch import Drawn
from anyformer.parts.slot import HeadSizes
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
    from anyformer.parts.call.context import Memory, Visible
    from anyformer.parts.call.state import FullState


SEEN = Causal()
"""The keys among which it is chosen."""


class BlockChoice(Drawn):
    """The base of ways of choosing blocks: a query attends to at most n blocks of b keys of what it may see."""

    kinds: ClassVar[Registry] = Registry()
    learns: ClassVar[bool] = False
    """Whether it has weights that a loss of its own trains (`Report.index`)."""
    kind: str
    block: Count = 128
    """b, positions of a block, counted from the first of a row or document."""
    keep: Count = 16
    """n, blocks of a query; all that it sees if they are no more."""

    @property
    def most(self) -> int:
        """The most keys of a query."""
        return self.keep * self.block

    def blocks(self, keys: int) -> int:
        """The number of blocks of `keys` positions."""
        return -(-keys // self.block)

    def leaves_out(self, keys: int, plan: Plan) -> bool:
        """Whether a call with so many keys leaves out those that are not chosen; attention written out masks them."""
        return self.blocks(keys) > self.keep and plan.attention != "plain"

    def pairs(self, shape: Shape, plan: Plan) -> tuple[int, int]:
        """The (query, key) pairs of a head and row that are computed, and those that are allowed: of each query no more than
        what it chooses, of which its own block ends with it."""
        size, most = self.block, self.most

        def of_first(queries: int) -> int:
            start, later = min(queries, most), max(queries - most, 0)
            whole, rest = divmod(later, size)
            return start * (start + 1) // 2 + later * (most - size) + whole * size * (size + 1) // 2 + rest * (rest + 1) // 2

        keys = most if self.leaves_out(shape.keys, plan) else shape.keys
        return shape.length * keys, of_first(shape.past + shape.length) - of_first(shape.past)

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def choosing(self, heads: int, groups: int) -> int:
        """How many heads have a choice of their own, of H heads and K heads of keys: a multiple of K that divides H."""
        raise NotImplementedError

    def build(self, sizes: HeadSizes) -> nn.Module | None:
        """Its weights, which the attention has as `choice`."""
        return None

    def cost(self, sizes: HeadSizes, shape: Shape) -> Tally:
        """Its weights and operations."""
        return Tally()

    def held(self, sizes: HeadSizes, capacity: int) -> int:
        """Numbers of a row that the decode state holds for it beside keys and values."""
        return 0

    def read(self, sizes: HeadSizes, shape: Shape) -> int:
        """Numbers of them that the queries of a row read."""
        return 0

    def state(self, keys: FullState, capacity: int) -> FullState:
        """The state of these keys and values with what the choice holds beside them."""
        return keys

    def chosen(self, q_BHTE: Tensor, memory: Memory, visible: Visible, where: Places, call: AttentionCall) -> ChosenBlocks:
        """The blocks of each query; `memory`: the keys of this call and of its state, which holds them already."""
        raise NotImplementedError

    def report(self, chosen: ChosenBlocks, share_BTKn: Tensor, call: AttentionCall) -> None:
        """Report the loss of its scores; `share`: of attention on each chosen block."""
        raise NotImplementedError
