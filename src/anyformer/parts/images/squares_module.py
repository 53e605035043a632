"""The module of a projector of squares of patches side by side."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.squares import SquaresProjector


class SquaresModule(nn.Module):
    """(n, S, I) -> (n, S / side^2, D), of positions of which side^2 after the other are a square."""

    def __init__(self, part: SquaresProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.wide = part.side**2 * inputs
        self.inner = part.inner.build(self.wide, width)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.inner(x_nSI.reshape(len(x_nSI), -1, self.wide))  # type: ignore[no-any-return]
