"""The order of positions in which tokens have no padding between them."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def gapless(valid_BT: Tensor, before: int) -> tuple[Tensor, Tensor]:
    """An order of the `before` stored positions and T new ones that puts padding in front, so that tokens have no gaps.

    Returns the position to take per place, (B, before + T), and the place of each new position's output, (B, T).
    """
    order = F.pad(valid_BT.long(), (before, 0), value=1).argsort(dim=1, stable=True)
    return order, (order.argsort(1)[:, before:] - before).clamp(min=0)
