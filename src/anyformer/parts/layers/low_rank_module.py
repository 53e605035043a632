"""The module of low-rank residuals."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.layers.low_rank import LowRankResidual


class LowRankResidualModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, part: LowRankResidual, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, part.rank, bias=False)
        self.up = nn.Linear(part.rank, width, bias=False)
        self.norm = part.norm.build(width) if part.norm else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        hidden_BTP = context.see("hidden", self.down(x_BTD))
        return x_BTD + self.norm(self.up(hidden_BTP))  # type: ignore[no-any-return]
