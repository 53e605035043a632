"""What choices of blocks keep beside keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.state import FullState


def beside(state: FullState, heads: int, places: int, features: int) -> Tensor:
    """Zeros (B, heads, places, features) of the kind of a state's keys."""
    return torch.zeros(len(state.key), heads, places, features, dtype=state.key.dtype, device=state.key.device)
