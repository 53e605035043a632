"""The module of a projector that downsamples squares of patches."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu

from anyformer.parts.images.downsampled import DownsampledProjector
from anyformer.parts.pointwise.activation_module import built_activation


class DownsampledModule(nn.Module):
    """(n, S, I) -> (n, S / side^2, D), of positions of which side^2 after the other are a square."""

    def __init__(self, part: DownsampledProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.wide = part.side**2 * inputs
        self.squares = nn.Linear(self.wide, width)
        self.projection = nn.Linear(width, width, bias=False)
        self.norm = part.norm.build(width) if part.norm else nn.Identity()
        self.gate = nn.Linear(width, part.hidden, bias=False)
        self.up = nn.Linear(width, part.hidden, bias=False)
        self.activation = built_activation(part.activation, part.hidden)
        self.down = nn.Linear(part.hidden, width, bias=False)

    def forward(self, x_nSI: Tensor) -> Tensor:
        h = gelu(self.norm(self.projection(self.squares(x_nSI.reshape(len(x_nSI), -1, self.wide)))))
        return self.down(self.activation(self.gate(h)) * self.up(h))  # type: ignore[no-any-return]
