"""The base module of mixers whose projections a short convolution may follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState
from anyformer.parts.recurrence.recurrent_heads_module import by_head
from anyformer.parts.recurrence.short_convolution import ShortConvolution


class ConvolvedProjections(nn.Module):
    """Projections by name, separate in storage, and `NAME_convolution` behind those that are convolved; all by default."""

    def __init__(
        self,
        widths: Mapping[str, int],
        width: int,
        convolution: ShortConvolution | None,
        convolved: Collection[str] | None = None,
    ) -> None:
        super().__init__()
        self.convolved = frozenset(() if convolution is None else widths if convolved is None else convolved)
        for name, features in widths.items():
            self.add_module(name, nn.Linear(width, features, bias=False))
            if convolution is not None and name in self.convolved:
                self.add_module(f"{name}_convolution", convolution.build(features))

    def projected(self, name: str, x_BTD: Tensor, heads: int, context: Context, state: RecurrentState | None) -> Tensor:
        """The projection of this name, (B, T, heads * E), convolved if it has a convolution, seen head by head."""
        y: Tensor = self.get_submodule(name)(x_BTD)
        if name in self.convolved:
            recent = None if state is None else state.convolutions[name]
            y = self.get_submodule(f"{name}_convolution")(y, context, recent)
        return by_head(name, y, heads, context)


def unit_length(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(sum of its squares + eps), along the last dimension."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)
