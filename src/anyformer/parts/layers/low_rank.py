"""Residuals with a learned map of low rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.operations.elementwise import added
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.layers.low_rank_module import LowRankResidualModule


class LowRankResidual(Sublayer):
    """y = x + norm(x A B), A (D, P) and B (P, D): what stands for the residual x beside other branches.

    LAuReL-LR (Menghani et al. 2024, arXiv 2411.07501): a block computes f(x) + x + x A B, a step of two branches with
    `residual = "none"`. Gemma 3n reads the normed x, adds the residual besides, and divides by sqrt(2). The paper's B is our A.
    """

    kind: Literal["low_rank_residual"] = "low_rank_residual"
    rank: Count
    """Features (P) between A and B."""
    norm: Norm | None = None
    """Norm of x A B (Gemma 3n)."""

    def sketch(self, width: int) -> Sketch:
        norm = None if self.norm is None else Cell("norm", "norm")
        narrow = chain(Cell(f"down {number(self.rank)}"), Cell(f"up {number(width)}"), norm)
        return Sketch("Low-rank residual", flow=fan(narrow, Cell("itself", "pointwise"), join="+"))

    def gathers(self, width: int) -> int | None:
        return 0

    def build(self, width: int, plan: Plan, name: str) -> LowRankResidualModule:
        from anyformer.parts.layers.low_rank_module import LowRankResidualModule

        return LowRankResidualModule(self, width)

    def watchable(self, width: int) -> Watchables:
        return {"hidden": value("BTP", "the narrow features", P=self.rank)}

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        down = matrix("down", width, self.rank, shape.rows, role="replicate")
        # Not a way into the stream that zeros would close: x itself is left.
        up = matrix("up", self.rank, width, shape.rows, role="replicate")
        norm = Tally() if self.norm is None else total({"norm": self.norm.cost(width, shape.rows)})
        return down + up + norm + Tally(own_work={"residual": added(shape.rows * width)})
