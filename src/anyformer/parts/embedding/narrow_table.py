"""A table narrower than the stream, whose rows a projection widens, alone or with those of the tokens around."""

from __future__ import annotations

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Count, Value
from anyformer.operations import Limit, Tally, matrix


class NarrowTable(Value):
    """x_t = [e_(t+a), ..., e_t, ..., e_(t-a)] W + b, e the rows of a table (V, P), 0 beyond the row: W ((2 a + 1) P, D).

    MobileBERT (Sun et al. 2020, arXiv 2004.02984) with a = 1: trigrams. Types of segments are as wide as the stream.
    """

    width: Count
    """P, features of the table."""
    around: Annotated[int, Field(ge=0)] = 0
    """a, tokens before and after each one that it reads too."""

    @property
    def inputs(self) -> int:
        """Features that the projection reads."""
        return (2 * self.around + 1) * self.width

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that it breaks by its mathematics."""
        if not self.around:
            return ()
        reason = "an embedding reads the tokens around each one"
        return Limit.each(reason, "causal", "stepwise", "chunked", "cached", "packed")

    def build(self, width: int) -> NarrowTableModule:
        return NarrowTableModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        return matrix("projection", self.inputs, width, rows, role="replicate", bias=True) + Tally(own_limits=self.limits)


class NarrowTableModule(nn.Module):
    """(B, T, P) and padding (B, T) -> (B, T, D)."""

    def __init__(self, part: NarrowTable, width: int) -> None:
        super().__init__()
        self.around = part.around
        self.projection = nn.Linear(part.inputs, width)

    def forward(self, x_BTP: Tensor, padding_BT: Tensor | None) -> Tensor:
        length, a = x_BTP.shape[1], self.around
        if padding_BT is not None and a:
            x_BTP = x_BTP.masked_fill(padding_BT[..., None], 0)
        wide = F.pad(x_BTP, (0, 0, a, a))
        return self.projection(torch.cat([wide[:, i : i + length] for i in reversed(range(2 * a + 1))], -1))  # type: ignore[no-any-return]
