"""The module of two projectors, one behind the other."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.chained import ChainedProjector
from anyformer.parts.pointwise.activation_module import built_activation


class ChainedModule(nn.Module):
    """(n, S, I) -> (n, T, D)."""

    def __init__(self, part: ChainedProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.first = part.first.build(inputs, part.between)
        self.activation = nn.Identity() if part.activation is None else built_activation(part.activation, part.between)
        self.then = part.then.build(part.between, width)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.then(self.activation(self.first(x_nSI)))  # type: ignore[no-any-return]
