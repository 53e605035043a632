"""A gain and a bias in the place of a norm."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from anyformer.operations import Tally
from anyformer.operations.elementwise import normalised
from anyformer.parts.norms.norm import GainKind, Norm, gain_and_bias


class Affine(Norm):
    """y = x * gain + bias, over D: what is left of LayerNorm without its statistics (MobileBERT's NoNorm, arXiv 2004.02984)."""

    gain: ClassVar[GainKind] = "weight"
    bias: ClassVar[bool] = True
    kind: Literal["affine"] = "affine"

    def build(self, width: int) -> AffineModule:
        return AffineModule(width)

    def cost(self, width: int, vectors: int) -> Tally:
        return gain_and_bias(self.gain, self.bias, width, normalised(width, vectors, 2 * width))


class AffineModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))

    def extra_repr(self) -> str:
        return f"width={len(self.weight)}"

    def forward(self, x_D: Tensor) -> Tensor:
        return x_D * self.weight.to(x_D.dtype) + self.bias.to(x_D.dtype)
