"""Where the tokens of each entry stand: in a row with padding or documents, and behind the tokens that a state holds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.call.context import Context
from anyformer.parts.call.state import EMPTY


@dataclass(frozen=True)
class Blocks:
    """The tokens of n entries: `at` (B, n, r, m) their places, `there` (B, n, r) whether that block is one of its row.

    `numbers` (B, n): the number of each entry's own block; EMPTY for none, where nothing says that it is not `complete`. With a
    state, places are those of its tail and then of the chunk, and `latest` (B, r * m) are those of the next tail.
    """

    at: Tensor
    there: Tensor
    numbers: Tensor
    documents: Tensor | None = None
    complete: Tensor | None = None
    latest: Tensor | None = None

    def cut(self, x_BSF: Tensor) -> Tensor:
        """What a token gives to the entry, by its block's place: (B, S, r * E) -> (B, n, r, m, E)."""
        r = self.at.shape[2]
        rows = torch.arange(len(x_BSF), device=x_BSF.device)[:, None, None, None]
        part = torch.arange(r, device=x_BSF.device)[:, None]
        return torch.unflatten(x_BSF, -1, (r, -1))[rows, self.at, part]


def blocks_of(context: Context, block: int, span: int) -> Blocks:
    """Of a row without state, in which padding may stand anywhere and documents one after the other: n = T // m."""
    positions = context.positions
    valid = positions != EMPTY
    # Tokens side by side, padding behind them.
    order = (~valid).byte().argsort(dim=1, stable=True)
    ends = (valid & (positions % block == block - 1)).gather(1, order)
    last = (~ends).byte().argsort(dim=1, stable=True)[:, : positions.shape[1] // block]
    slot = order.gather(1, last)
    numbers = torch.where(ends.gather(1, last), positions.gather(1, slot) // block, EMPTY)
    back = torch.arange(span * block - 1, -1, -1, device=positions.device).view(span, block)
    before = (last[..., None, None] - back).clamp(min=0)
    at = order.gather(1, before.flatten(1)).view_as(before)
    documents = None if context.documents is None else context.documents.expand_as(positions).gather(1, slot)
    return Blocks(at, _there(numbers, span), numbers, documents)


def blocks_of_state(context: Context, block: int, span: int) -> Blocks:
    """Of those that a chunk may complete, n = ceil(T / m), behind a tail of the latest r * m tokens."""
    assert context.chunk is not None, "a stack with state enters its chunk first"
    positions = context.chunk.positions
    T, tail = positions.shape[1], span * block
    valid = positions != EMPTY
    count, device = valid.sum(1, keepdim=True), positions.device
    last = positions.amax(1, keepdim=True)
    first = last + 1 - count
    order = valid.byte().argsort(dim=1, stable=True)  # padding in front

    def place(wanted: Tensor) -> Tensor:
        """The place of each position (B, i): in the chunk if it is there, else in the tail."""
        own = order.gather(1, (T - count + wanted - first).clamp(0, T - 1))
        return torch.where(wanted >= first, tail + own, wanted % tail)

    numbers = first // block + torch.arange(-(-T // block), device=device)
    complete = (numbers + 1) * block <= last + 1
    back = torch.arange(tail - 1, -1, -1, device=device)
    wanted = ((numbers + 1) * block - 1)[..., None] - back
    # What is not whole yet reads positions that are not there: any will do.
    wanted = wanted.clamp(min=0).minimum(last[..., None].clamp(min=0))
    at = place(wanted.flatten(1)).view(*wanted.shape[:2], span, block)
    each = torch.arange(tail, device=device)
    newest = last - (last - each) % tail
    latest = torch.where(newest >= first.clamp(min=0), place(newest.clamp(min=0)), each)
    return Blocks(at, _there(numbers, span), numbers, complete=complete, latest=latest)


def _there(numbers_Bn: Tensor, span: int) -> Tensor:
    """Whether the row has the blocks of each entry: its own always, so that there is something to pool."""
    back = torch.arange(span - 1, -1, -1, device=numbers_Bn.device)
    return (numbers_Bn[..., None] >= back) | (back == 0)
