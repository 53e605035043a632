"""The module of skip connections."""

from __future__ import annotations

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import STREAM
from anyformer.parts.layers.skip import Skip


class SkipModule(nn.Module):
    """(B, T, D), which it does not read, -> (B, T, D)."""

    def __init__(self, skip: Skip, width: int) -> None:
        super().__init__()
        self.variant, self.detached = skip.variant, skip.detached
        self.projection = nn.Linear(width, width, bias=False) if skip.projected else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context, state: None = None) -> Tensor:
        left_BTD = context.shared[self.variant, STREAM]
        left_BTD = left_BTD.detach() if self.detached else left_BTD
        return self.projection(left_BTD.to(x_BTD.dtype))  # type: ignore[no-any-return]
