"""Mixture of block attention: blocks of keys chosen by the product of a query with the mean of a block's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.operations import Elementwise, Operation, Pairs, Shape, Tally
from anyformer.parts.attention.block_choice import BlockChoice
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.masks.pairs import pairs_with_blocks
from anyformer.parts.sketch import Cell, Sketch, chain
from anyformer.parts.slot import HeadSizes

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.chosen_blocks import ChosenBlocks, Places
    from anyformer.parts.call.block_state import BlockState
    from anyformer.parts.call.context import Memory, Visible
    from anyformer.parts.call.state import FullState


class MeanKeys(BlockChoice):
    """The query's own block and the n - 1 earlier ones of the greatest q_th . mean over s of block j of k_s, per head.

        q: (B, T, H, E), k: (B, S, K, E), normed and rotated as the attention's own; scores (B, T, H, ceil(S / b))

    Mixture of block attention (MoBA: Lu et al. 2025, arXiv 2502.13189): no weights, no loss, no gradient through the choice.
    The paper's laws of scaling have b = 512 and n = 3, the own block among them. In supervised fine-tuning, where prompts have
    no loss, it found it worse than full attention unless the last layers are full.
    """

    kind: Literal["mean_keys"] = "mean_keys"

    def sketch(self, width: int) -> Sketch:
        best = Cell(f"best {self.keep:,} blocks of {self.block:,} keys", "choice")
        return Sketch("Mean keys", (), chain(Cell("query × mean key of each block"), best))

    def choosing(self, heads: int, groups: int) -> int:
        return heads

    def cost(self, sizes: HeadSizes, shape: Shape) -> Tally:
        B, T, H, E = shape.batch, shape.length, sizes.heads, sizes.head_width
        pairs = T * self.blocks(shape.keys)
        scores = Pairs(B, H, E, pairs, self._earlier(shape), T, "features", no_gradient=4 * B * H * E * pairs)
        features = shape.rows * sizes.groups * E
        work: dict[str, Operation] = {"scores": scores, "means": Elementwise("activations", features, features, features)}
        return Tally(own_work=work)

    def _earlier(self, shape: Shape) -> int:
        """Pairs of a query of a row and a whole block before its own."""
        return pairs_with_blocks(shape.past + shape.length, self.block) - pairs_with_blocks(shape.past, self.block)

    def held(self, sizes: HeadSizes, capacity: int) -> int:
        return sizes.groups * sizes.head_width * (self.blocks(capacity) + 1)

    def read(self, sizes: HeadSizes, shape: Shape) -> int:
        return sizes.groups * sizes.head_width * self._earlier(shape)

    def state(self, keys: FullState, capacity: int) -> BlockState:
        from anyformer.parts.attention.block_choice_module import beside
        from anyformer.parts.call.block_state import BlockState

        means = beside(keys, keys.key.shape[1], self.blocks(capacity) + 1, keys.key.shape[3])
        return BlockState(keys.key, keys.value, means)

    def chosen(self, q_BHTE: Tensor, memory: Memory, visible: Visible, where: Places, call: AttentionCall) -> ChosenBlocks:
        from anyformer.parts.attention.mean_keys_module import chosen

        return chosen(self, q_BHTE, memory, where, call)
