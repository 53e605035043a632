"""Filters over neighbouring positions, each feature by itself."""

from __future__ import annotations

import torch
from torch import Tensor


def convolve(wide: Tensor, weight: Tensor, segments: Tensor | None, *, ahead: int = 0, dilation: int = 1) -> Tensor:
    """y_t = sum over j < n of w_j x_{t - n + 1 + ahead + j}: (B, n - 1 + T, W) and (W, n) -> (B, T, W), in fp32 at least.

    `wide`: T positions with the n - 1 around them that the first and the last output read, `ahead` of them behind. `segments`
    (B, n - 1 + T): the document of each; an output reads its own only. `dilation` d: positions from one that is read to the
    next, w_j x_{t - d (n - 1 - ahead - j)}, with d times as many around the T.
    """
    wide, weight = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (wide, weight))
    before = weight.shape[1] - 1
    length, own = wide.shape[1] - dilation * before, before - ahead
    here = dilation * own
    y = wide[:, here : here + length] * weight[:, own]
    for j in range(before + 1):
        if j == own:
            continue
        at = dilation * j
        near = wide[:, at : at + length]
        if segments is not None:
            near = near.masked_fill((segments[:, at : at + length] != segments[:, here : here + length])[..., None], 0)
        y = y + near * weight[:, j]
    return y
