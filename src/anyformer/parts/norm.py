"""Normalisation over the last dimension: RMSNorm and LayerNorm."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Value
from anyformer.tally import Tally, Weight

Gain = Literal["weight", "one_plus_weight", "none"]
Eps = Annotated[float, Field(gt=0)]


class RMSNorm(Value):
    """Divide by the root mean square: y = x / sqrt(mean(x^2) + eps) * gain, over D (Zhang & Sennrich 2019, arXiv 1910.07467).

    Statistics are taken in fp32. `cast` says when the result returns to the input's type: before the gain (Llama) or
    after it (Gemma). The paper's g is our gain.
    """

    kind: Literal["rms_norm"] = "rms_norm"
    eps: Eps = 1e-5
    gain: Gain = "weight"
    """`weight`: w, starting at 1; `one_plus_weight`: 1 + w, w starting at 0 (Gemma); `none`: no gain."""
    bias: bool = False
    cast: Literal["before_gain", "after_gain"] = "before_gain"

    def build(self, width: int) -> NormModule:
        return NormModule(self, width, centre=False)

    def cost(self, width: int) -> Tally:
        return _cost(self, width)


class LayerNorm(Value):
    """Centre and scale: y = (x - mean(x)) / sqrt(var(x) + eps) * gain + bias, over D (Ba et al. 2016, arXiv 1607.06450).

    Statistics are taken in fp32; `cast` as in `RMSNorm`. The paper's g and b are our gain and bias.
    """

    kind: Literal["layer_norm"] = "layer_norm"
    eps: Eps = 1e-5
    gain: Gain = "weight"
    bias: bool = True
    cast: Literal["before_gain", "after_gain"] = "after_gain"

    def build(self, width: int) -> NormModule:
        return NormModule(self, width, centre=True)

    def cost(self, width: int) -> Tally:
        return _cost(self, width)


Norm = Annotated[RMSNorm | LayerNorm, Field(discriminator="kind")]


def _cost(norm: RMSNorm | LayerNorm, width: int) -> Tally:
    weights: dict[str, Weight] = {}
    if norm.gain != "none":
        weights["weight"] = Weight((width,), "replicate", "ones" if norm.gain == "weight" else "zeros")
    if norm.bias:
        weights["bias"] = Weight((width,), "replicate", "zeros")
    return Tally(weights)


class NormModule(nn.Module):
    """The module of both norms: `centre` subtracts the mean first."""

    def __init__(self, norm: RMSNorm | LayerNorm, width: int, *, centre: bool) -> None:
        super().__init__()
        self.norm, self.centre = norm, centre
        self.weight = nn.Parameter(torch.empty(width)) if norm.gain != "none" else None
        self.bias = nn.Parameter(torch.empty(width)) if norm.bias else None

    def extra_repr(self) -> str:
        return repr(self.norm)

    def forward(self, x_D: Tensor) -> Tensor:
        dtype = x_D.dtype
        y_D = normalise(x_D.float(), self.norm.eps, centre=self.centre)
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
        x_D = x_D - x_D.mean(-1, keepdim=True)
    return x_D * torch.rsqrt(x_D.square().mean(-1, keepdim=True) + eps)
