"""The module of a projector of a gated network."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.images.gated_projector import GatedProjector
from anyformer.parts.pointwise.activation_module import built_activation


class GatedProjectorModule(nn.Module):
    """(n, S, I) -> (n, S, D)."""

    def __init__(self, part: GatedProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.norm = part.norm.build(inputs) if part.norm else nn.Identity()
        self.gate = nn.Linear(inputs, part.hidden, bias=part.bias)
        self.up = nn.Linear(inputs, part.hidden, bias=part.bias)
        self.activation = built_activation(part.activation, part.hidden)
        self.down = nn.Linear(part.hidden, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        x_nSI = self.norm(x_nSI)
        return self.down(self.activation(self.gate(x_nSI)) * self.up(x_nSI))  # type: ignore[no-any-return]
