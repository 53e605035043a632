"""A table narrower than the stream, whose rows a projection widens, alone or with those of the tokens around."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from anyformer.describe import Count, Value
from anyformer.operations import Limit, Tally, matrix

if TYPE_CHECKING:
    from anyformer.parts.embedding.narrow_table_module import NarrowTableModule


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
        from anyformer.parts.embedding.narrow_table_module import NarrowTableModule

        return NarrowTableModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        return matrix("projection", self.inputs, width, rows, role="replicate", bias=True) + Tally(own_limits=self.limits)
