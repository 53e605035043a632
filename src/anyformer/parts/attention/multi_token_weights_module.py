"""What multi-token attention computes of its scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def around(scores_BHTS: Tensor, allowed: Tensor | None, valid_BT: Tensor | None, filters_Hnm: Tensor) -> Tensor:
    """The softmax, where `allowed`, of scores convolved over the n latest queries and the m keys around; padding counts 0."""
    if allowed is not None:
        scores_BHTS = scores_BHTS.masked_fill(~allowed, 0.0)
    if valid_BT is not None:
        scores_BHTS = scores_BHTS * valid_BT[:, None, :, None]  # padding before the first query has no scores
    w_Hnm, T, (n, m) = filters_Hnm.to(scores_BHTS.dtype), scores_BHTS.shape[2], filters_Hnm.shape[1:]
    wide = F.pad(scores_BHTS, ((m - 1) // 2, m // 2, n - 1, 0))
    earlier = (wide[:, :, n - 1 - i : n - 1 - i + T].unfold(3, m, 1) for i in range(n))
    sums = [torch.einsum("bhtsm, hm -> bhts", near, w_Hnm[:, i]) for i, near in enumerate(earlier)]
    near_BHTS = torch.stack(sums).sum(0)
    return (near_BHTS if allowed is None else near_BHTS.masked_fill(~allowed, float("-inf"))).softmax(-1)
