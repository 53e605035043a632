"""Dual cross-attention (DCA, Ates et al. 2023, arXiv 2303.17696) among several scales of features.

The scales stand side by side in the residual stream. First their channels attend to one another, then their positions:

    residual(ChannelCrossAttention(scales=(32, 64, 128)), SpatialCrossAttention(scales=(32, 64, 128)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.operations import Limit, Operation, Pairs, Shape, Tally, Watchables, inside, total, value
from anyformer.operations.elementwise import softmax
from anyformer.parts.attention.named_values import pairs_seen
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Bidirectional
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.depthwise import depthwise
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.attention.dual_cross_attention_module import ChannelCrossAttentionModule, SpatialCrossAttentionModule


_BOTH_WAYS = Bidirectional()


class AcrossScales(Sublayer):
    """The base of both attentions: n scales side by side, D = sum of D_i, each with a norm and projections of its own.

    The norm belongs to the part, because one over the whole width would mix the scales: leave the branch's norm out.
    """

    scales: tuple[Count, ...] = Field(min_length=1)
    """D_i, features of each scale, in their order in the stream."""
    heads: Count
    """H, a divisor of every D_i."""
    norm: Norm = LayerNorm(eps=1e-6)
    """Norm of each scale by itself, before the projections."""

    @model_validator(mode="after")
    def _whole_heads(self) -> AcrossScales:
        if any(own % self.heads for own in self.scales):
            raise ValueError(f"heads must divide every scale, got heads = {self.heads} and scales = {list(self.scales)}")
        return self

    def check(self, width: int) -> None:
        if sum(self.scales) != width:
            raise ValueError(
                f"the scales must add up to the width, got scales = {list(self.scales)}, together {sum(self.scales)}, "
                f"and width = {width}"
            )

    def projections(self, own: int, width: int) -> Mapping[str, int]:
        """The width of each depthwise projection, by name, of a scale of `own` features."""
        raise NotImplementedError

    def products(self, width: int, shape: Shape) -> Mapping[str, Operation]:
        """Scores, softmax and mixing of all scales."""
        raise NotImplementedError

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that it breaks by its mathematics."""
        raise NotImplementedError

    def watchable(self, width: int) -> Watchables:
        found: Watchables = {}
        for i, own in enumerate(self.scales):
            sides = {name: size for name, size in self.projections(own, width).items() if name != "output"}
            of_scale = {name: value("BTW", f"{name}, of all heads", W=size) for name, size in sides.items()}
            mixed = value("BTW", "what is mixed, before the output projection", W=own)
            found |= inside(f"scales[{i}]", {**of_scale, **self.pairs_seen(own, width), "mixed": mixed})
        return found

    def pairs_seen(self, own: int, width: int) -> Watchables:
        """Scores and weights of a scale of so many features."""
        raise NotImplementedError

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = {f"scales.{i}": self._scale(own, width, shape.rows) for i, own in enumerate(self.scales)}
        return total(parts) + Tally(own_work=self.products(width, shape), own_limits=self.limits)

    def _scale(self, own: int, width: int, rows: int) -> Tally:
        weights = total({"norm": self.norm.cost(own, rows)})
        for name, wide in self.projections(own, width).items():
            weights += depthwise(name, wide)
        return weights


class ChannelCrossAttention(AcrossScales):
    """Every channel of a scale attends to the channels of all scales: Y_i = dw(softmax(Q_i^T K_i * D^-0.5) V_i^T)^T.

    Q_i = dw(norm(X_i)): (B, T, D_i); K_i, V_i = dw(norm(X_1) | ... | norm(X_n)): (B, T, D); scores (B, D_i, D), summed over
    all positions; Y = Y_1 | ... | Y_n: (B, T, D); dw(x) = weight * x + bias, one of each per channel. Heads split the channels
    and do not change the scale. Ates et al. 2023, arXiv 2303.17696; the paper's C_i is D_i, C_c is D, P^2 is T.
    """

    kind: Literal["channel_cross_attention"] = "channel_cross_attention"
    heads: Count = 1

    def build(self, width: int, plan: Plan, name: str) -> ChannelCrossAttentionModule:
        from anyformer.parts.attention.dual_cross_attention_module import ChannelCrossAttentionModule

        return ChannelCrossAttentionModule(self, width, plan)

    def projections(self, own: int, width: int) -> Mapping[str, int]:
        return {"query": own, "key": width, "value": width, "output": own}

    def pairs_seen(self, own: int, width: int) -> Watchables:
        H = self.heads
        scores = value("BHWI", "scores of channels of all scales", written_out=True, H=H, W=own // H, I=width // H)
        return {"scores": scores, "weights": replace(scores, about="what the values of channels are weighed by")}

    def products(self, width: int, shape: Shape) -> Mapping[str, Operation]:
        # Channels attend to channels, and positions are their features.
        B, T, pairs = shape.batch, shape.length, width * width // self.heads
        return {
            "scores": Pairs(B, 1, T, pairs, pairs, width, "features"),
            "softmax": softmax(B * pairs, B * pairs),
            "mix": Pairs(B, 1, T, pairs, pairs, width, "keys"),
        }

    @property
    def limits(self) -> tuple[Limit, ...]:
        reason = "the scores of channels are sums over all positions"
        return Limit.each(reason, "causal", "stepwise", "chunked", "cached", "packed")


class SpatialCrossAttention(AcrossScales):
    """Positions attend to positions by the features of all scales: Y_i = dw(softmax(Q_i K_i^T * (D / H)^-0.5) V_i).

    Q_i, K_i = dw(norm(X_1) | ... | norm(X_n)): (B, T, H, D / H); V_i = dw(norm(X_i)): (B, T, H, D_i / H); scores (B, H, T, T);
    Y = Y_1 | ... | Y_n: (B, T, D); dw(x) = weight * x + bias, one of each per channel. Ates et al. 2023, arXiv 2303.17696;
    the paper's C_i is D_i, C_c is D, P^2 is T.
    """

    kind: Literal["spatial_cross_attention"] = "spatial_cross_attention"
    heads: Count = 4

    def build(self, width: int, plan: Plan, name: str) -> SpatialCrossAttentionModule:
        from anyformer.parts.attention.dual_cross_attention_module import SpatialCrossAttentionModule

        return SpatialCrossAttentionModule(self, width, plan)

    def projections(self, own: int, width: int) -> Mapping[str, int]:
        return {"query": width, "key": width, "value": own, "output": own}

    def pairs_seen(self, own: int, width: int) -> Watchables:
        return pairs_seen(self.heads)

    def products(self, width: int, shape: Shape) -> Mapping[str, Operation]:
        # Every scale has scores of its own, over the features of all.
        B, T, H, E = shape.batch, shape.length, self.heads, width // self.heads
        maps = H * len(self.scales)
        return {
            "scores": Pairs(B, maps, E, T * T, T * T, T, "features"),
            "softmax": softmax(B * maps * T * T, B * maps * T * T),
            "mix": Pairs(B, H, E, T * T, T * T, T, "keys"),
        }

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (_BOTH_WAYS,)

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (*_BOTH_WAYS.limits, *Limit.each("no position is remembered between calls", "chunked", "cached"))
