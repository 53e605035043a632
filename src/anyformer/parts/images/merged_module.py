"""The module of a projector that merges squares of patches."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.merged import MergedProjector
from anyformer.parts.pointwise.activation_module import built_activation


class MergedModule(nn.Module):
    """(n, S, I) -> (n, S / side^2, D), of positions of which side^2 after the other are a square."""

    def __init__(self, part: MergedProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.wide = part.side**2 * inputs
        self.normed = inputs if part.norm_of == "patch" else self.wide
        self.norm = part.norm.build(self.normed) if part.norm else nn.Identity()
        self.first = nn.Linear(self.wide, self.wide, bias=part.bias)
        self.activation = built_activation(part.activation, self.wide)
        self.second = nn.Linear(self.wide, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        merged = self.norm(x_nSI.reshape(len(x_nSI), -1, self.normed)).reshape(len(x_nSI), -1, self.wide)
        return self.second(self.activation(self.first(merged)))  # type: ignore[no-any-return]
