"""What the processor of this machine can do, where it decides which of torch's kernels is fast."""

from __future__ import annotations

import torch


def multiplies_tiles() -> bool:
    """Whether it multiplies tiles of matrices of 16 bits in one instruction: AMX, in Intel's processors since 2023.

    There one row is multiplied by a matrix faster than by the same matrix in oneDNN's order, whose tiles one row fills to a
    sixteenth, and torch's attention reads a cache of 16 bits at the same rate as one of 32.
    """
    return torch.cpu._is_amx_tile_supported()
