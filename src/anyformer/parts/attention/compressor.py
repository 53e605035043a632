"""Entries: keys that each stand for m positions, pooled with learned weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import Count
from anyformer.operations import Elementwise, Operation, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import rotated, softmax
from anyformer.parts.masks.pairs import pairs_with_blocks
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Drawn, Sketch

if TYPE_CHECKING:
    import torch

    from anyformer.parts.attention.compressor_module import CompressorModule
    from anyformer.parts.call.entry_state import EntryState


class Compressor(Drawn):
    """One entry per block of m positions, pooled of the tokens of its own block and of the r - 1 before it:

        entry_i = rotate(norm(sum_t softmax_t(x_t W_g + b_t) * (x_t W_v))), with weights per feature: (B, S / m, E)

    W_v, W_g: (D, E) and b: (m, E), others for each of the r places of a block; it is rotated as the first position of its own
    block. An entry is there once its block is whole (DeepSeek-V4, arXiv 2606.19348, section 2.3: m = 4 and r = 2, or m = 128
    and r = 1).
    """

    block: Count = 4
    """m, positions of a block, counted from the first of a row or document."""
    span: Count = 1
    """r, blocks of which an entry is pooled."""
    norm: Norm | None = None

    @property
    def tokens(self) -> int:
        """The positions of which an entry is pooled."""
        return self.block * self.span

    @property
    def words(self) -> str:
        """In words: `4 : 1, of 8 positions`."""
        return f"{self.block} : 1" + (f", of {self.tokens} positions" if self.span > 1 else "")

    def sketch(self, width: int) -> Sketch:
        return Sketch("Compressor", (self.words,))

    def check(self, features: int) -> None:
        """Refuse features that cannot be normed."""
        if self.norm is not None:
            self.norm.check(features)

    def entries(self, positions: int) -> int:
        """The entries of so many positions."""
        return positions // self.block

    def seen(self, shape: Shape, most: int | None = None) -> int:
        """Pairs of a query and an entry that it sees, of one row; `most`: of a query no more."""

        def at_most(queries: int) -> int:
            """The sum over u = 1 ... queries of u // m, or of `most` if that is less."""
            if most is None or queries < most * self.block:
                return pairs_with_blocks(queries + 1, self.block)
            return pairs_with_blocks(most * self.block, self.block) + (queries - most * self.block + 1) * most

        return at_most(shape.keys) - at_most(shape.past)

    def tail(self, features: int) -> tuple[int, int]:
        """Tokens that the decode state holds, and the numbers of each."""
        return self.tokens, 2 * self.span * features

    def held(self, features: int, capacity: int) -> int:
        """Numbers of one row in the decode state."""
        tokens, each = self.tail(features)
        return (self.entries(capacity) + 1) * features + tokens * each

    def state(self, features: int, batch: int, capacity: int, dtype: torch.dtype, device: torch.device) -> EntryState:
        from anyformer.parts.call.entry_state import EntryState

        return EntryState.empty(batch, self.entries(capacity), features, self.tail(features), dtype, device)

    def build(self, width: int, features: int, rotary: Rotary | None) -> CompressorModule:
        from anyformer.parts.attention.compressor_module import CompressorModule

        return CompressorModule(self, width, features, rotary)

    def cost(self, width: int, features: int, rotary: Rotary | None, shape: Shape, *, constant: bool = False) -> Tally:
        """Its weights and work, for entries of so many features; `constant`: x takes no gradient."""
        made, wide = self.span * features, shape.rows
        parts = matrix("value", width, made, wide, role="replicate", constant=constant)
        parts += matrix("gate", width, made, wide, role="replicate", constant=constant)
        bias = {"position_bias": Weight((self.block, made), "replicate", "zeros", linear=False)}
        # A step makes an entry anew of what it has, whether its block is whole or not.
        count = self.entries(shape.length) if not shape.past else -(-shape.length // self.block)
        entries = shape.batch * count
        pooled = entries * self.tokens * features
        work: dict[str, Operation] = {
            "pool": softmax(pooled, pooled), "sum": Elementwise("activations", 2 * pooled, 2 * pooled, 2 * pooled)
        }  # fmt: skip
        if rotary is not None:
            work["rotary"] = rotated(entries * rotary.rotated(features))
        return parts + Tally(bias, work) + total({} if self.norm is None else {"norm": self.norm.cost(features, entries)})
