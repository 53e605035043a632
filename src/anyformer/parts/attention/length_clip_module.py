"""What a bound of lengths computes."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = 1e-6
"""Added to a length, which may be 0."""


def clipped(x_E: Tensor, bound: float, scale_HE: Tensor | None = None) -> Tensor:
    """(..., E): vectors, times a factor of each feature if there is one, no longer than the bound; in fp32 within."""
    y_E = x_E.float() if scale_HE is None else x_E.float() * scale_HE.float()
    length = torch.linalg.vector_norm(y_E, dim=-1, keepdim=True)
    bounded: Tensor = y_E * (bound / (length + LEAST)).clamp(max=1.0)
    return bounded.to(x_E.dtype)
