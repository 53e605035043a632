"""Norm of queries and keys."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from torch import nn

from anyformer.describe import Value
from anyformer.operations import Tally
from anyformer.parts.norms.layer_norm import LayerNorm, RMSNorm, of_each_head
from anyformer.parts.norms.norm import Norm


class QKNorm(Value):
    """q, k = norm(q), norm(k) (Henry et al. 2020, arXiv 2010.04245; Dehghani et al. 2023, arXiv 2302.05442): (B, T, H, E).

    Queries and keys have a norm each.
    """

    norm: Norm
    over: Literal["head", "each_head", "projection"] = "head"
    """Normalise each head by itself, with one gain for all (Qwen 3) or a gain of its own (Command R+), or the whole projection
    (OLMo 2)."""
    at: Literal["before_rotary", "after_rotary"] = "before_rotary"
    """Whether heads are normalised before the rotation or after it (Llama 4, Hunyuan)."""

    @model_validator(mode="after")
    def _fits_together(self) -> QKNorm:
        if self.at == "after_rotary" and self.over != "head":
            raise ValueError("at = 'after_rotary' needs over = 'head': a norm of each head, with one gain for all")
        if self.over == "each_head" and not isinstance(self.norm, RMSNorm | LayerNorm):
            raise ValueError("over = 'each_head' needs a norm of kind rms_norm or layer_norm")
        return self

    def width(self, heads: int, head_width: int) -> int:
        """The number of features that have weights of the norm."""
        return head_width if self.over == "head" else heads * head_width

    def build(self, heads: int, head_width: int) -> nn.Module:
        """The norm of queries or of keys with `heads` heads."""
        if self.over == "each_head":
            assert isinstance(self.norm, RMSNorm | LayerNorm), "checked by the description"
            return of_each_head(self.norm, heads, head_width)
        return self.norm.build(self.width(heads, head_width))

    def cost(self, heads: int, head_width: int, rows: int) -> Tally:
        """Weights and work of the norm of queries or of keys with `heads` heads."""
        width = self.width(heads, head_width)
        vectors = rows if self.over == "projection" else rows * heads
        whole = self.norm.cost(width, vectors)
        if self.over != "each_head":
            return whole
        assert isinstance(self.norm, RMSNorm | LayerNorm), "checked by the description"
        return Tally(whole.own_weights, {"": self.norm.work(width, rows, groups=heads)})
