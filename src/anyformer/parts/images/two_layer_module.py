"""The module of a projector of two layers, position by position."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.two_layer import TwoLayerProjector
from anyformer.parts.pointwise.activation_module import built_activation


class TwoLayerModule(nn.Module):
    """(n, S, I) -> (n, S, D)."""

    def __init__(self, part: TwoLayerProjector, inputs: int, width: int) -> None:
        super().__init__()
        hidden = part.hidden or width
        self.norm = part.norm.build(inputs) if part.norm else nn.Identity()
        self.first = nn.Linear(inputs, hidden, bias=part.bias)
        self.activation = built_activation(part.activation, hidden)
        self.second = nn.Linear(hidden, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.second(self.activation(self.first(self.norm(x_nSI))))  # type: ignore[no-any-return]
