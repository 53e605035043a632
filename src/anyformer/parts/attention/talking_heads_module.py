"""What talking heads compute."""

from __future__ import annotations

import torch
from torch import Tensor


def talked(scores_BHTS: Tensor, allowed: Tensor | None, before_HH: Tensor, after_HH: Tensor) -> Tensor:
    """Scores mixed over heads, their softmax where `allowed`, and that mixed again."""
    before_HH, after_HH = before_HH.to(scores_BHTS.dtype), after_HH.to(scores_BHTS.dtype)
    said_BHTS = torch.einsum("gh, bhts -> bgts", before_HH, scores_BHTS)
    if allowed is not None:
        said_BHTS = said_BHTS.masked_fill(~allowed, float("-inf"))
    return torch.einsum("gh, bhts -> bgts", after_HH, said_BHTS.softmax(-1))
