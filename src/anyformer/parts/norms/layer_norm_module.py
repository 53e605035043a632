"""The module of norms over the features of one position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.norms.layer_norm import FeatureNorm, LayerNorm, RMSNorm


def of_each_head(norm: RMSNorm | LayerNorm, heads: int, head_width: int) -> NormModule:
    """`norm` of each head by itself, every head with a gain of its own: (..., H * E) -> (..., H * E)."""
    return NormModule(norm, heads * head_width, partial(normalise_groups, groups=heads, eps=norm.eps, centre=norm.centres))


class NormModule(nn.Module):
    """`normalised` in fp32, then gain and bias; `normalised` is a partial function, so that a model can be pickled."""

    def __init__(self, norm: FeatureNorm, width: int, normalised: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.normalised = norm, normalised
        self.weight = nn.Parameter(torch.empty(width)) if norm.gain != "none" else None
        self.bias = nn.Parameter(torch.empty(width)) if norm.bias else None

    def extra_repr(self) -> str:
        return repr(self.norm)

    def forward(self, x_D: Tensor) -> Tensor:
        dtype = x_D.dtype
        y_D = self.normalised(x_D.float())
        if self.norm.cast == "before_gain":
            y_D = y_D.to(dtype)
        if self.weight is not None:
            # In fp32 or in the input's type, as `cast` asks; a weight never widens the result.
            gain_D = self.weight.to(y_D.dtype)
            y_D = y_D * (1 + gain_D if self.norm.gain == "one_plus_weight" else gain_D)
        if self.bias is not None:
            y_D = y_D + self.bias.to(y_D.dtype)
        return y_D.to(dtype)


def normalise(x_D: Tensor, eps: float, *, centre: bool) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimension, of x - mean(x) if `centre`."""
    if centre:
        return F.layer_norm(x_D, x_D.shape[-1:], eps=eps)
    return x_D * torch.rsqrt(x_D.square().mean(-1, keepdim=True) + eps)


def normalise_groups(x_D: Tensor, groups: int, eps: float, *, centre: bool) -> Tensor:
    """`normalise` of each of `groups` equal pieces of the last dimension."""
    return normalise(x_D.view(*x_D.shape[:-1], groups, -1), eps, centre=centre).flatten(-2)
