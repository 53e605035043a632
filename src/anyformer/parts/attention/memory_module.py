"""What virtual tokens compute: keys and values before all others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.call.context import Memory


def behind(key_KPE: Tensor, value_KPU: Tensor, memory: Memory) -> Memory:
    """The memory behind P keys and values that every row has."""
    k, v = (
        torch.cat([own.to(x.dtype).expand(x.shape[0], -1, -1, -1), x], 2)
        for own, x in ((key_KPE, memory.key), (value_KPU, memory.value))
    )
    return Memory(k, v, memory.keys)


def padded(bias: Tensor | None, count: int) -> Tensor | None:
    """A bias of scores (..., S) with 0 for `count` keys before them."""
    return None if bias is None else F.pad(bias, (count, 0))
