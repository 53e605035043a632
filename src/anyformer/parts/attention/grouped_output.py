"""An output projection through a narrow vector of each group of heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import Count, DescriptionError, Value
from anyformer.operations import Tally, matrix

if TYPE_CHECKING:
    from anyformer.parts.attention.grouped_output_module import GroupedOutputModule


class GroupedOutput(Value):
    """y = [m_1 A_1, ..., m_n A_n] B, m_i the mixed values of the i-th of n groups of heads (DeepSeek-V4, arXiv 2606.19348).

    m_i: (B, T, H E / n), A_i: (H E / n, P), B: (n P, D). Where H E is many times D, it has a fraction of the weights and of the
    work of one matrix. The paper's g is n, its d_g P = rank.
    """

    groups: Count
    """n, a divisor of the heads."""
    rank: Count
    """Features (P) of each group."""

    def check(self, heads: int) -> None:
        """Refuse groups that would split a head."""
        if heads % self.groups:
            raise DescriptionError(f"output.groups must divide the heads, got {self.groups} and {heads}")

    def build(self, features: int, width: int) -> GroupedOutputModule:
        from anyformer.parts.attention.grouped_output_module import GroupedOutputModule

        return GroupedOutputModule(self, features, width)

    def cost(self, features: int, width: int, rows: int) -> Tally:
        """Its weights and work on `rows` vectors of so many features."""
        narrow = self.groups * self.rank
        down = matrix("down", features, narrow, rows, role="column", groups=self.groups)
        return down + matrix("up", narrow, width, rows, role="row", fill="residual")
