"""DoRA: a frozen matrix whose rows' directions are changed by a low-rank matrix, and whose rows' lengths learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from anyformer.operations import Weight
from anyformer.tuning.adapter import DOWN, MAGNITUDE, UP, LowRankAdapter

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.tuning.adapter_module import AdaptedLinear


class Dora(LowRankAdapter):
    """y = x (m V / |V|)^T with V = W + s B A and |V| the lengths of its rows (outputs,), m (outputs,) learnt from |W| on.

    As in the paper's section 4.3 no gradient goes through |V|. Liu et al. 2024, arXiv 2402.09353: the paper has inputs as
    rows, so its lengths are those of columns.
    """

    kind: Literal["dora"] = "dora"

    def beside(self, weight: Weight) -> dict[str, Weight]:
        """A, B and the length of each row: r (I + O) + O numbers."""
        length = Weight(weight.shape[:1], "replicate", "ones", copies=weight.copies)
        return super().beside(weight) | {MAGNITUDE: length}

    def linear(self, frozen: nn.Linear) -> AdaptedLinear:
        from anyformer.tuning.dora_module import DoraLinear

        return DoraLinear(frozen, self.beside(Weight(tuple(frozen.weight.shape), "replicate", "matrix")), self.scale)

    def matrix(self, weight: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """m V / |V|."""
        from anyformer.tuning.dora_module import lengths_of_rows

        whole = weight + self.scale * (own[UP] @ own[DOWN])
        factor: Tensor = own[MAGNITUDE] / lengths_of_rows(whole)
        return factor[:, None] * whole
