"""The module of tables of hashed n-grams."""

from __future__ import annotations

from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.gapless import gapless
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.embedding.ngrams import Ngrams
from anyformer.parts.lookup import rows_of


class NgramsModule(nn.Module):
    """The context's tokens (B, T) -> a row of each table, (B, T, tables, P)."""

    def __init__(self, part: Ngrams, width: int) -> None:
        super().__init__()
        self.part, self.factors, self.sizes = part, part.factors, part.sizes
        self.starts = (0, *accumulate(self.sizes))
        self.table = nn.Parameter(torch.empty(part.total, width))

    def extra_repr(self) -> str:
        return self.part.words

    def forward(self, context: Context, state: ConvolutionState | None = None) -> Tensor:
        return rows_of(self.table, self.hashed(latest(self.part, context, state)), "hashed n-grams")

    def hashed(self, tokens_BTn: Tensor) -> Tensor:
        """The rows of the n-grams of which token k before the present is `tokens_BTn[..., k]`: (B, T, tables)."""
        mixed = tokens_BTn[..., 0] * self.factors[0]
        rows: list[Tensor] = []
        for k in range(1, self.part.longest):
            mixed = mixed ^ (tokens_BTn[..., k] * self.factors[k])
            if k + 1 in self.part.orders:
                tables = range(len(rows), len(rows) + self.part.heads)
                rows += [mixed % self.sizes[table] + self.starts[table] for table in tables]
        return torch.stack(rows, -1)


def latest(part: Ngrams, context: Context, state: ConvolutionState | None) -> Tensor:
    """Each token and those before it in its document, the latest first: (B, T, n); it updates the state."""
    assert context.tokens is not None, "a stack whose layers read tokens gets them"
    tokens_BT, count = context.tokens.long(), part.longest - 1
    past = tokens_BT.new_full((tokens_BT.shape[0], count), part.before) if state is None else state.recent
    wide, segments, valid, back = torch.cat([past, tokens_BT], 1), context.segments, context.valid, None
    if segments is not None:
        segments = F.pad(segments.expand(len(wide), -1), (count, 0), value=-1)
    if valid is not None:
        order, back = context.once(("gapless", count), lambda: gapless(valid.expand(tokens_BT.shape[0], -1), count))
        wide = wide.gather(1, order)
        segments = None if segments is None else segments.gather(1, order)
    length = wide.shape[1] - count
    here = wide[:, count:]
    found, reached = [here], torch.ones_like(here, dtype=torch.bool)
    for k in range(1, count + 1):
        near = wide[:, count - k : count - k + length]
        if segments is not None:
            reached = reached & (segments[:, count - k : count - k + length] == segments[:, count:])
        if part.ends is not None:
            reached = reached & (near != part.ends)
        found.append(near.where(reached, part.before))
    tokens_BTn = torch.stack(found, -1)
    if state is not None:
        state.recent.copy_(wide[:, length:])
    return tokens_BTn if back is None else tokens_BTn.gather(1, back[..., None].expand_as(tokens_BTn))
