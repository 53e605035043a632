"""The module of compressed entries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.attention.compressor import Compressor
from anyformer.parts.attention.entry_blocks import blocks_of, blocks_of_state
from anyformer.parts.call.context import Context
from anyformer.parts.call.entry_state import EntryState
from anyformer.parts.call.state import EMPTY
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.positions.rotary_module import rotate, table


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
        waves = table(self.rotary, first, made_BnE.shape[-1], made_BnE.dtype, last)
        return rotate(self.rotary, made_BnE[:, :, None], waves)[:, :, 0]
