"""States carried from chunk to chunk."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.recurrence.recurrence import Factors


def carried(f: Factors, writes: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The state before every chunk, (..., chunks, M, E), and that after the last, of what each chunk adds until it ends."""
    before = []
    for across, written in zip(f.across_chunks, writes.unbind(-3), strict=True):
        before.append(state)
        state = across * state + written
    return torch.stack(before, -3), state
