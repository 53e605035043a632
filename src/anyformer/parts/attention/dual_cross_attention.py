"""Dual cross-attention: several scales of features, side by side in the residual stream, that read each other.

First their channels attend to each other, then their positions (DCA, Ates et al. 2023, arXiv 2303.17696). A block of both:

    residual(ChannelCrossAttention(scales=(32, 64, 128)), SpatialCrossAttention(scales=(32, 64, 128)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attend_keeps import Seen, Sizes, attend_keeps
from anyformer.parts.attention.depthwise import Depthwise, depthwise, depthwise_keeps
from anyformer.parts.call.context import Context, Labelled, Visible
from anyformer.parts.masks.mask import Mask
from anyformer.parts.masks.simple import Bidirectional
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan
from anyformer.tally import Contract, Flops, Limit, Shape, Tally, total
from anyformer.tape import Held, Tape

Count = Annotated[int, Field(ge=1)]
_BOTH_WAYS = Bidirectional()


class AcrossScales(Sublayer):
    """What both attentions share: n scales side by side, D = sum of D_i, each with a norm and projections of its own.

    The norm is in here because one of the whole width would mix the scales: leave the branch's own out.
    """

    kind: str
    scales: tuple[Count, ...] = Field(min_length=1)
    """D_i, features of each scale, in the order in which they stand."""
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
        """How wide each depthwise projection of a scale of `own` features is."""
        raise NotImplementedError

    def products(self, width: int, shape: Shape) -> Mapping[str, int]:
        """FLOPs of scores and mixing, of all scales."""
        raise NotImplementedError

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Contracts that it breaks by its mathematics."""
        raise NotImplementedError

    def mixed_keeps(self, tape: Tape, own: int, q: Held, k: Held, v: Held) -> Held:
        """What the attention of one scale keeps."""
        raise NotImplementedError

    def keeps(self, tape: Tape, x: Held, width: int) -> Held:
        """What norms keep of their part of x, both factors of each depthwise projection, and what each attention keeps."""
        scales = [tape.within(f"scales.{i}") for i in range(len(self.scales))]
        own = [
            self.norm.keeps(at.within("norm"), Held(tape.rows * features, x.number, base=x), features)
            for at, features in zip(scales, self.scales, strict=True)
        ]
        every = tape.like(x)
        for at, features, part in zip(scales, self.scales, own, strict=True):
            sides = self.projections(features, width)
            q, k, v = (
                depthwise_keeps(at, name, part if sides[name] == features else every, sides[name])
                for name in ("query", "key", "value")
            )
            depthwise_keeps(at, "output", self.mixed_keeps(at, features, q, k, v), features)
        return tape.like(x)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = {f"scales.{i}": self._scale(own, width) for i, own in enumerate(self.scales)}
        work = {name: Flops(count, count) for name, count in self.products(width, shape).items()}
        return total(parts) + Tally(flops=work, limits=self.limits)

    def _scale(self, own: int, width: int) -> Tally:
        weights = total({"norm": self.norm.cost(own)})
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
        return ChannelCrossAttentionModule(self, width, plan)

    def projections(self, own: int, width: int) -> Mapping[str, int]:
        return {"query": own, "key": width, "value": width, "output": own}

    def products(self, width: int, shape: Shape) -> Mapping[str, int]:
        work = 2 * shape.batch * shape.length * width * width // self.heads
        return {"scores": work, "mix": work}

    def mixed_keeps(self, tape: Tape, own: int, q: Held, k: Held, v: Held) -> Held:
        """Positions are the features; its output is turned back, not copied."""
        B, T, H = tape.shape.batch, tape.shape.length, self.heads
        channels = k.elements // (B * T * H)
        at = replace(tape, shape=Shape(batch=B, length=own // H))
        return attend_keeps(at, Sizes(H, H, T, T, turned=True), q, k, v, Seen("all", channels))

    @property
    def limits(self) -> tuple[Limit, ...]:
        contracts: tuple[Contract, ...] = ("causal", "stepwise", "chunked", "cached", "packed")
        return tuple(Limit(contract, "the scores of channels are sums over all positions") for contract in contracts)


class SpatialCrossAttention(AcrossScales):
    """Positions attend to positions by the features of all scales: Y_i = dw(softmax(Q_i K_i^T * (D / H)^-0.5) V_i).

    Q_i, K_i = dw(norm(X_1) | ... | norm(X_n)): (B, T, H, D / H); V_i = dw(norm(X_i)): (B, T, H, D_i / H); scores (B, H, T, T);
    Y = Y_1 | ... | Y_n: (B, T, D); dw(x) = weight * x + bias, one of each per channel. Ates et al. 2023, arXiv 2303.17696;
    the paper's C_i is D_i, C_c is D, P^2 is T.
    """

    kind: Literal["spatial_cross_attention"] = "spatial_cross_attention"
    heads: Count = 4

    def build(self, width: int, plan: Plan, name: str) -> SpatialCrossAttentionModule:
        return SpatialCrossAttentionModule(self, width, plan)

    def projections(self, own: int, width: int) -> Mapping[str, int]:
        return {"query": width, "key": width, "value": own, "output": own}

    def products(self, width: int, shape: Shape) -> Mapping[str, int]:
        pairs = 2 * shape.batch * shape.length**2
        return {"scores": pairs * width * len(self.scales), "mix": pairs * width}

    def mixed_keeps(self, tape: Tape, own: int, q: Held, k: Held, v: Held) -> Held:
        sizes = Sizes(self.heads, self.heads, q.elements // (tape.rows * self.heads), own // self.heads)
        mixed = attend_keeps(tape, sizes, q, k, v, Seen.of(_BOTH_WAYS, tape.shape, banded=False))
        return tape.like(mixed) if mixed.apart else mixed

    @property
    def masks(self) -> tuple[Mask, ...]:
        return (_BOTH_WAYS,)

    @property
    def limits(self) -> tuple[Limit, ...]:
        contracts: tuple[Contract, ...] = ("chunked", "cached")
        return (*_BOTH_WAYS.limits, *(Limit(contract, "no position is remembered between calls") for contract in contracts))


class AcrossScalesModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: AcrossScales, width: int, plan: Plan) -> None:
        super().__init__()
        self.part, self.plan = part, plan
        self.scales = nn.ModuleList(
            nn.ModuleDict(
                {"norm": part.norm.build(own)} | {name: Depthwise(wide) for name, wide in part.projections(own, width).items()}
            )
            for own in part.scales
        )

    def extra_repr(self) -> str:
        return f"scales={self.part.scales}, heads={self.part.heads}"

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        scales: list[nn.ModuleDict] = list(self.scales)  # type: ignore[arg-type]
        own = [scale["norm"](x) for scale, x in zip(scales, torch.split(x_BTD, list(self.part.scales), -1), strict=True)]
        all_BTD = torch.cat(own, -1)
        mixed = [scale["output"](self.mixed(scale, x, all_BTD, context)) for scale, x in zip(scales, own, strict=True)]
        return torch.cat(mixed, -1)

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        """What one scale, (B, T, D_i), reads of all: (B, T, D_i)."""
        raise NotImplementedError

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, H * E) -> (B, H, T, E)."""
        return x.view(*x.shape[:-1], self.part.heads, -1).transpose(1, 2)


class ChannelCrossAttentionModule(AcrossScalesModule):
    """(B, T, D) -> (B, T, D)."""

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        q, k, v = scale["query"](own), scale["key"](all_BTD), scale["value"](all_BTD)
        if context.valid is not None:
            # Scores are sums over positions: a query of zeros takes padding out of them.
            q = q.masked_fill(~context.valid[..., None], 0)
        # Attention turned by a quarter: channels stand where positions do elsewhere, and positions are the features.
        y_BHET = attend(
            self._split(q).mT, self._split(k).mT, self._split(v).mT, Visible(),
            scale=all_BTD.shape[-1] ** -0.5, kernel=self.plan.attention,
        )  # fmt: skip
        return y_BHET.mT.transpose(1, 2).flatten(2)


class SpatialCrossAttentionModule(AcrossScalesModule):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: AcrossScales, width: int, plan: Plan) -> None:
        super().__init__(part, width, plan)
        self.mask: Labelled[Mask] = Labelled(_BOTH_WAYS, _BOTH_WAYS.digest)

    def mixed(self, scale: nn.ModuleDict, own: Tensor, all_BTD: Tensor, context: Context) -> Tensor:
        q, k, v = (self._split(x) for x in (scale["query"](all_BTD), scale["key"](all_BTD), scale["value"](own)))
        visible = context.visible(self.mask, context.keys)
        return attend(q, k, v, visible, scale=q.shape[-1] ** -0.5, kernel=self.plan.attention).transpose(1, 2).flatten(2)
