"""Sparse activations: all but the largest features of a vector become 0."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from anyformer.describe import Value
from anyformer.operations import Tally
from anyformer.operations.elementwise import thresholded

if TYPE_CHECKING:
    from torch import Tensor


class StatisticalTopK(Value):
    """y = max(x - (mean(x) + q std(x)), 0) over F, q the quantile at `sparsity` of a standard normal distribution.

    Of features that are normally distributed, that share becomes 0: the largest are found without sorting. Statistical top-k
    of Spark Transformer (You et al. 2025, arXiv 2506.06644); of the gates of Gemma 3n's first layers.
    """

    sparsity: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """The share of features that becomes 0."""

    @property
    def words(self) -> str:
        """For pictures."""
        return f"top {100 * (1 - self.sparsity):.3g}% of features"

    def cost(self, width: int, vectors: int) -> Tally:
        return Tally(own_work={"": thresholded(width, vectors)})

    def kept(self, x_F: Tensor) -> Tensor:
        """(..., F) -> (..., F)."""
        quantile = NormalDist().inv_cdf(self.sparsity)
        threshold_1 = x_F.mean(-1, keepdim=True) + quantile * x_F.std(-1, correction=0, keepdim=True)
        return (x_F - threshold_1).relu()
