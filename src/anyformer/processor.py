"""What the processor of this machine can do, where it decides which of torch's kernels is fast."""

from __future__ import annotations

import platform
from functools import cache

import torch
from torch.utils._python_dispatch import _disable_current_modes


def multiplies_tiles() -> bool:
    """Whether it multiplies tiles of matrices of 16 bits in one instruction: AMX, in Intel's processors since 2023.

    There one row is multiplied by a matrix faster than by the same matrix in oneDNN's order, whose tiles one row fills to a
    sixteenth, and torch's attention reads a cache of 16 bits at the same rate as one of 32.
    """
    return torch.cpu._is_amx_tile_supported()


@cache
def packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN multiplies by a matrix of this type in an order of its own here: one was tried.

    It refuses numbers of 16 bits on a processor without instructions for them. On others than x86 it was never measured.
    """
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    with _disable_current_modes():  # of somebody who records what is computed, or computes without numbers
        ones = torch.ones(16, 16, dtype=dtype, device="cpu")
        try:
            held = torch.ops.mkldnn._reorder_linear_weight(ones, 1)
            found = torch.ops.mkldnn._linear_pointwise(ones, held, None, "none", [], "")
        except RuntimeError:
            return False
        return bool((found == 16).all())
