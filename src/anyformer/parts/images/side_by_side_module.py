"""The module of a projector that joins neighbouring positions."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.side_by_side import SideBySideProjector
from anyformer.parts.pointwise.activation_module import built_activation


class SideBySideModule(nn.Module):
    """(n, S, I) -> (n, S / count, D)."""

    def __init__(self, part: SideBySideProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.wide = part.count * inputs
        self.first = nn.Linear(self.wide, width, bias=part.bias)
        self.activation = built_activation(part.activation, width)
        self.second = nn.Linear(width, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        joined = x_nSI.reshape(len(x_nSI), -1, self.wide)
        return self.second(self.activation(self.first(joined)))  # type: ignore[no-any-return]
