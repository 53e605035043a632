"""The module of a projector that condenses squares of patches."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.condensed import CondensedProjector


class CondensedModule(nn.Module):
    """(n, S, I) -> (n, S / side^2, D), of positions of which side^2 after the other are a square."""

    def __init__(self, part: CondensedProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.wide = part.side**2 * inputs
        self.norm = part.norm.build(inputs) if part.norm else nn.Identity()
        self.merge = nn.Linear(self.wide, inputs, bias=False)
        self.inner = part.inner.build(inputs, width)

    def forward(self, x_nSI: Tensor) -> Tensor:
        wide = self.norm(x_nSI).reshape(len(x_nSI), -1, self.wide)
        return self.inner(self.merge(wide))  # type: ignore[no-any-return]
