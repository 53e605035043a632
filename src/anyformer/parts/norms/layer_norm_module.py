"""The module of norms over the features of one position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.parts.norms.layer_norm import FeatureNorm, LayerNorm, RMSNorm
from anyformer.parts.norms.opened import NormReader, ShowsInside


def of_each_head(norm: RMSNorm | LayerNorm, heads: int, head_width: int) -> NormModule:
    """`norm` of each head by itself, every head with a gain of its own: (..., H * E) -> (..., H * E)."""
    normalised = partial(normalise_groups, groups=heads, eps=norm.eps, centre=norm.centres)
    return NormModule(norm, heads * head_width, normalised, heads)


class NormModule(ShowsInside):
    """`normalised` in fp32, then gain and bias; `normalised` is a partial function, so that a model can be pickled.

    `pieces`: as many equal pieces of the features are divided by the root of their mean square; None of another formula.
    """

    def __init__(
        self, norm: FeatureNorm, width: int, normalised: Callable[[Tensor], Tensor], pieces: int | None = None
    ) -> None:
        super().__init__()
        self.norm, self.normalised, self.pieces = norm, normalised, pieces
        self.weight = nn.Parameter(torch.empty(width)) if norm.gain != "none" else None
        self.bias = nn.Parameter(torch.empty(width)) if norm.bias else None

    def extra_repr(self) -> str:
        return repr(self.norm)

    def forward(self, x_D: Tensor) -> Tensor:
        return self._gained(self.normalised(x_D.float()), x_D.dtype)

    def opened(self, x_D: Tensor, shown: NormReader) -> Tensor:
        if self.pieces is not None and shown.wants("scale"):
            y_D = self._by_scale(x_D.float(), self.pieces, shown)
        else:
            y_D = self.normalised(x_D.float())
        return self._gained(shown.see("normalized", y_D), x_D.dtype)

    def _by_scale(self, x_D: Tensor, count: int, shown: NormReader) -> Tensor:
        """What is normalised, with the number by which each piece is divided, sqrt(mean(x^2) + eps), written out."""
        pieces = torch.unflatten(x_D, -1, (count, -1))
        pieces = pieces - pieces.mean(-1, keepdim=True) if self.norm.centres else pieces
        scale = (pieces.square().mean(-1) + self.norm.eps).sqrt()
        return (pieces / shown.see("scale", scale)[..., None]).flatten(-2)

    def _gained(self, y_D: Tensor, dtype: torch.dtype) -> Tensor:
        """What is normalised, with gain and bias, in the type of x."""
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
