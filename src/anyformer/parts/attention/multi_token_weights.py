"""Multi-token attention: a key is weighed by the scores of the keys around it, and of the queries just before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Count
from anyformer.operations import Contraction, Dimension, Limit, Shape, Tally, Weight
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor


class MultiTokenWeights(Map):
    """a = softmax(s' where visible), s'_ts = sum over i < n, j < m of w_ij s_(t - i)(s + j - (m - 1) / 2) of what is visible.

    w: (H, n, m), one filter per head; s, s', a: (B, H, T, S). The key-query convolution of Golovneva et al. 2025 (arXiv
    2504.00927, section 3.1), whose c_q is n and c_k is m; its mixing of heads is that of talking heads.
    """

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {
        "bands", "divided positions", "layout", "pairs of heads", "source",
    }  # fmt: skip
    kind: Literal["multi_token_weights"] = "multi_token_weights"
    queries: Count = 6
    """n, queries up to t."""
    keys: Count = 11
    """m, keys around s."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        return Limit.each("weights read the scores of earlier queries", "chunked", "cached", "packed")

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from anyformer.parts.attention.slots_module import parameters

        return parameters({"around": (sizes.heads, self.queries, self.keys)})

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        axes: tuple[Dimension, ...] = ((("heads", sizes.heads),), (), ())
        filters = (sizes.heads, self.queries, self.keys)
        return Tally({"around": Weight(filters, "column", "matrix", linear=False, axes=axes)})

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        return Tally(own_work={"around": Contraction(2 * shape.batch * sizes.heads * self.queries * self.keys * pairs)})

    def weights(self, scores_BHTS: Tensor, allowed: Tensor | None, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.multi_token_weights_module import around

        return around(scores_BHTS, allowed, call.context.valid, call.built("around"))
