"""The module of a norm whose features a gate of low rank weighs."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.norms.gated_norm import GatedNorm
from anyformer.parts.pointwise.activation_module import built_activation


class GatedNormModule(nn.Module):
    """(..., D) -> (..., D)."""

    def __init__(self, norm: GatedNorm, width: int) -> None:
        super().__init__()
        self.norm = norm.norm.build(width)
        self.down = nn.Linear(width, norm.rank, bias=False)
        self.activation = built_activation(norm.activation, norm.rank)
        self.up = nn.Linear(norm.rank, width, bias=False)

    def forward(self, x_D: Tensor) -> Tensor:
        n_D = self.norm(x_D)
        gate_D: Tensor = self.up(self.activation(self.down(n_D)))
        # The sigmoid in fp32, and one rounding, as A.X K2 has it.
        weighed_D: Tensor = n_D * gate_D.float().sigmoid()
        return weighed_D.to(n_D.dtype)
