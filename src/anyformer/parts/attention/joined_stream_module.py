"""The module of an earlier stream beside the one that attention reads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anyformer.parts.attention.joined_stream import Joined
from anyformer.parts.call.context import Context
from anyformer.parts.call.shared import STREAM


class JoinedModule(nn.Module):
    """(B, T, D) -> (B, T, 2 D)."""

    def __init__(self, joined: Joined, width: int) -> None:
        super().__init__()
        self.variant = joined.variant
        self.norm = joined.norm.build(2 * width) if joined.norm else nn.Identity()

    def forward(self, x_BTD: Tensor, context: Context) -> Tensor:
        return self.norm(torch.cat([x_BTD, context.shared[self.variant, STREAM].to(x_BTD.dtype)], -1))  # type: ignore[no-any-return]
