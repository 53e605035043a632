"""Parallax: softmax weights that a second query corrects, as the first order of a local linear fit of the values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.operations import Contraction, Dimension, Shape, Tally, matrix
from anyformer.parts.attention.slots import AttentionCall
from anyformer.parts.attention.weigh import Map
from anyformer.parts.slot import HeadSizes, Way

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.attention.slots_module import AttentionInputs


class Parallax(Map):
    """a_ij = p_ij (1 + sum over l of p_il c_il - c_ij), p = softmax(s), c_ij = r_i . k_j, r = x W_r: (B, T, H, E), placed as q.

    Softmax attention averages the values around a query; a linear fit also reads how they change with their keys, and r says
    along which direction: what is mixed is the average less the covariance of values with r . k. (Zuo et al. 2026, arXiv
    2605.29157; c has no factor.) The weights of a query add up to 1, and some may be below 0.
    """

    rules_out: ClassVar[frozenset[Way]] = Map.rules_out | {"bands", "layout", "pairs of heads", "source", "two inputs"}
    kind: Literal["parallax"] = "parallax"

    @property
    def each(self) -> int:
        return 7

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        from torch import nn

        return {"parallax": nn.Linear(sizes.inputs, sizes.features("query"), bias=False)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        of_heads: Dimension = (("heads", sizes.heads), ("features", sizes.head_width))
        return matrix("parallax", sizes.inputs, sizes.features("query"), shape.rows, role="column", outputs_as=of_heads)

    def of_pairs(self, sizes: HeadSizes, shape: Shape, pairs: int) -> Tally:
        return Tally(own_work={"along": Contraction(2 * shape.batch * sizes.features("query") * pairs)})

    def attended(self, given: AttentionInputs, call: AttentionCall) -> Tensor:
        from anyformer.parts.attention.attend import attend
        from anyformer.parts.attention.parallax_module import along, corrected

        along_BHTS = along(call.built("parallax")(call.x), given, call)
        return attend(*given.all, weigh=partial(corrected, along_BHTS), **call.attention.scoring(call))
