"""The module of a projector of one layer."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.linear import LinearProjector


class LinearModule(nn.Module):
    """(n, S, I) -> (n, S, D)."""

    def __init__(self, part: LinearProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(inputs, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.projection(x_nSI)  # type: ignore[no-any-return]
