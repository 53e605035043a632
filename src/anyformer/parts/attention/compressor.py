"""Entries: keys that each stand for m positions, pooled with learned weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Elementwise, Operation, Shape, Tally, Weight, matrix, total
from anyformer.operations.elementwise import rotated, softmax
from anyformer.parts.attention.entry_blocks import blocks_of, blocks_of_state
from anyformer.parts.call.context import Context
from anyformer.parts.call.entry_state import EntryState
from anyformer.parts.call.state import EMPTY
from anyformer.parts.masks.pairs import pairs_with_blocks
from anyformer.parts.norms.norm import Norm
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Drawn, Sketch


class Compressor(Drawn):
    """One entry for each block of m positions, pooled of the tokens of its own block and of the r - 1 before it:

        entry_i = rotate(norm(sum_t softmax_t(x_t W_g + b_t) * (x_t W_v))), with weights for each feature: (B, S / m, E)

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
        return EntryState.empty(batch, self.entries(capacity), features, self.tail(features), dtype, device)

    def build(self, width: int, features: int, rotary: Rotary | None) -> CompressorModule:
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


@dataclass(frozen=True)
class Entries:
    """Entries (B, n, E), and of each the number of its block in its row or document, (B or 1, n), EMPTY for none."""

    features: Tensor
    numbers: Tensor
    block: int
    documents: Tensor | None = None

    def seen(self, context: Context) -> Tensor:
        """Those whose block each query has passed, bool (B or 1, T, n)."""
        number, whole = self.numbers[:, None], (context.positions + 1)[:, :, None] // self.block
        seen = (number != EMPTY) & (number < whole)
        if self.documents is None:
            return seen
        assert context.documents is not None, "entries have documents if positions have"
        return seen & (self.documents[:, None] == context.documents[:, :, None])


class CompressorModule(nn.Module):
    """(B, T, D) -> the `Entries` of all positions so far."""

    def __init__(self, part: Compressor, width: int, features: int, rotary: Rotary | None) -> None:
        super().__init__()
        self.part, self.rotary, made = part, rotary, part.span * features
        self.value = nn.Linear(width, made, bias=False)
        self.gate = nn.Linear(width, made, bias=False)
        self.position_bias = nn.Parameter(torch.empty(part.block, made))
        self.norm = part.norm.build(features) if part.norm else nn.Identity()

    def extra_repr(self) -> str:
        return f"block={self.part.block}, span={self.part.span}"

    def forward(self, x_BTD: Tensor, context: Context, state: EntryState | None = None) -> Entries:
        value, gate = self.value(x_BTD), self.gate(x_BTD)
        m, r = self.part.block, self.part.span
        if state is not None:
            return self._of_state(torch.cat([value, gate.to(value.dtype)], -1), context, state)
        if context.aligned:
            count = x_BTD.shape[1] // m
            numbers = torch.arange(count, device=x_BTD.device)[None]
            there = numbers[..., None] >= r - 1 - torch.arange(r, device=x_BTD.device)
            made = self._pooled(self._in_order(value, count), self._in_order(gate, count), there)
            return Entries(self._placed(made, numbers, context), numbers, m)
        where = context.once(("blocks of entries", m, r), lambda: blocks_of(context, m, r))
        made = self._pooled(where.cut(value), where.cut(gate), where.there)
        return Entries(self._placed(made, where.numbers, context), where.numbers, m, where.documents)

    def _of_state(self, given_BTF: Tensor, context: Context, state: EntryState) -> Entries:
        """The same, of which the state holds the earlier ones; it holds the new ones and the latest tokens afterwards."""
        m, r = self.part.block, self.part.span
        where = context.once(("blocks of entries", m, r, "state"), lambda: blocks_of_state(context, m, r))
        table = torch.cat([state.tail.to(given_BTF.dtype), given_BTF], 1)
        value, gate = table.chunk(2, -1)
        made = self._placed(self._pooled(where.cut(value), where.cut(gate), where.there), where.numbers, context)
        assert where.complete is not None, "made for a state"
        assert where.latest is not None, "made for a state"
        state.write(made, where.numbers, where.complete)
        state.tail.copy_(table.gather(1, where.latest[..., None].expand(-1, -1, table.shape[-1])))
        assert context.chunk is not None, "a stack with state enters its chunk first"
        count = self.part.entries(context.chunk.slot_positions.shape[1])
        numbers = torch.arange(count, device=table.device)[None]
        return Entries(state.entries[:, :count].to(given_BTF.dtype), numbers, m)

    def _in_order(self, x_BTF: Tensor, count: int) -> Tensor:
        """What `Blocks.cut` gives where token t is position t: (B, n, r, m, E)."""
        m, r = self.part.block, self.part.span
        x = x_BTF[:, : count * m].reshape(len(x_BTF), count, m, r, x_BTF.shape[-1] // r)
        return torch.stack([F.pad(x[..., j, :], (0, 0, 0, 0, r - 1 - j, 0))[:, :count] for j in range(r)], 2)

    def _pooled(self, value_BnrmE: Tensor, gate_BnrmE: Tensor, there_Bnr: Tensor) -> Tensor:
        """Entries before norm and rotation, (B, n, E); `there`: the blocks that there are."""
        bias_rmE = torch.unflatten(self.position_bias, -1, (self.part.span, -1)).transpose(0, 1)
        gates = (gate_BnrmE + bias_rmE.to(gate_BnrmE.dtype)).float()
        gates = gates.masked_fill(~there_Bnr[..., None, None], float("-inf"))
        weights: Tensor = gates.flatten(2, 3).softmax(2).to(value_BnrmE.dtype)
        return (weights * value_BnrmE.flatten(2, 3)).sum(2)

    def _placed(self, made_BnE: Tensor, numbers_Bn: Tensor, context: Context) -> Tensor:
        """Entries normed, and rotated as the first position of their block."""
        made_BnE = self.norm(made_BnE)
        if self.rotary is None:
            return made_BnE
        first, last = numbers_Bn.clamp(min=0) * self.part.block, context.positions.amax()
        table = self.rotary.table(first, made_BnE.shape[-1], made_BnE.dtype, last)
        return self.rotary.rotate(made_BnE[:, :, None], table)[:, :, 0]
