"""Norm of queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from anyformer.operations import Dimension, Shape, Tally, total
from anyformer.parts.attention.slots import Adjustment, AttentionCall
from anyformer.parts.norms.layer_norm import LayerNorm, RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Cell
from anyformer.parts.slot import HeadSizes, Side, Way

if TYPE_CHECKING:
    from torch import Tensor, nn


class QKNorm(Adjustment):
    """q, k = norm(q), norm(k) (Henry et al. 2020, arXiv 2010.04245; Dehghani et al. 2023, arXiv 2302.05442): (B, T, H, E).

    Queries and keys have a norm each.
    """

    name: ClassVar[str] = "qk_norm"
    short: ClassVar[str] = "norm"
    norm: Norm
    over: Literal["head", "each_head", "projection"] = "head"
    """Normalise each head by itself, with one gain for all (Qwen 3) or a gain of its own (Command R+), or the whole projection
    (OLMo 2)."""
    at: Literal["before_rotary", "after_rotary"] = "before_rotary"
    """Whether heads are normalised before the rotation or after it (Llama 4, Hunyuan)."""

    @model_validator(mode="after")
    def _fits_together(self) -> QKNorm:
        if self.at == "after_rotary" and self.over != "head":
            raise ValueError("at = 'after_rotary' needs over = 'head': norms head by head, with one gain for all")
        if self.over == "each_head" and not isinstance(self.norm, RMSNorm | LayerNorm):
            raise ValueError("over = 'each_head' needs a norm of kind rms_norm or layer_norm")
        return self

    def width(self, heads: int, head_width: int) -> int:
        """The number of features that have weights of the norm."""
        return head_width if self.over == "head" else heads * head_width

    @property
    def cell(self) -> Cell:
        return Cell(
            {"head": "QK-norm", "each_head": "QK-norm of each head", "projection": "QK-norm of all heads"}[self.over], "norm"
        )

    @property
    def cell_at(self) -> Literal["heads", "placed"]:
        return "placed" if self.at == "after_rotary" else "heads"

    @property
    def technique(self) -> str:
        return "QK-norm"

    def in_the_way(self, way: Way) -> tuple[str, ...]:
        if way == "source" and self.at == "after_rotary":  # which rotates nothing
            return (f"{self.name}.at",)
        # Processes that divide heads have some of the features alone that a norm of the whole projection reads.
        return (self.name,) if way == "latent" or (way == "divided heads" and self.over == "projection") else ()

    def sides(self, sizes: HeadSizes) -> tuple[Side, ...]:
        """What it normalises."""
        return ("query", "key") if sizes.own_keys else ("query",)

    def build(self, sizes: HeadSizes) -> Mapping[str, object]:
        return {f"{side}_norm": self._module(sizes.count(side), sizes.head_width) for side in self.sides(sizes)}

    def cost(self, sizes: HeadSizes, shape: Shape, key_rows: int) -> Tally:
        inner = {"query_norm": self._work(sizes.heads, sizes.head_width, shape.rows)}
        if sizes.own_keys:
            work = self._work(sizes.groups, sizes.head_width, key_rows)
            keys: Dimension = (("kv_heads", sizes.groups), ("features", sizes.head_width))
            inner["key_norm"] = work if self.over == "head" else work.counted(keys)
        return total(inner)

    def side_by_side(self, y: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return self._normed(y, side, call) if self.over != "head" else y

    def split(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return self._normed(y_BTHE, side, call) if self.over == "head" and self.at == "before_rotary" else y_BTHE

    def placed(self, y_BTHE: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return self._normed(y_BTHE, side, call) if self.at == "after_rotary" else y_BTHE

    def _normed(self, y: Tensor, side: Side, call: AttentionCall) -> Tensor:
        return y if side == "value" else call.built(f"{side}_norm")(y)

    def _module(self, heads: int, head_width: int) -> nn.Module:
        from anyformer.parts.norms.layer_norm_module import of_each_head

        if self.over == "each_head":
            assert isinstance(self.norm, RMSNorm | LayerNorm), "checked by the description"
            return of_each_head(self.norm, heads, head_width)
        return self.norm.build(self.width(heads, head_width))

    def _work(self, heads: int, head_width: int, rows: int) -> Tally:
        width = self.width(heads, head_width)
        vectors = rows if self.over == "projection" else rows * heads
        whole = self.norm.cost(width, vectors)
        if self.over != "each_head":
            return whole
        assert isinstance(self.norm, RMSNorm | LayerNorm), "checked by the description"
        # Processes that divide heads divide the gains with them.
        weights = {name: replace(weight, role="column") for name, weight in whole.own_weights.items()}
        return Tally(weights, {"": self.norm.work(width, rows, groups=heads)})
