"""The steps of attention with scores written out: scores, softmax, and the heads of each group side by side."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def by_group(x_BHTE: Tensor, groups: int) -> Tensor:
    """(B, H, T, E) -> (B, K, H / K * T, E): query heads of the same keys side by side, so that keys are not copied per head."""
    B, H, T, E = x_BHTE.shape
    return x_BHTE.reshape(B, groups, H // groups * T, E)


def scores(q_BHTE: Tensor, k_BKSE: Tensor, scale: float, bias_BHTS: Tensor | None, softcap: float | None) -> Tensor:
    """cap(q k^T * scale + bias) in fp32, (B, H, T, S); in 16 bits, if products of these are only scaled by a power of two.

    Such scores are exactly those in fp32, and a softmax reads them as they are: it computes in fp32 and rounds once.
    """
    B, H, T, _ = q_BHTE.shape
    if softcap is None and bias_BHTS is None and q_BHTE.dtype.itemsize == 2 and math.frexp(scale)[0] == 0.5:
        return (by_group(q_BHTE * scale, k_BKSE.shape[1]) @ k_BKSE.mT).view(B, H, T, -1)
    scores_BHTS = (by_group(q_BHTE, k_BKSE.shape[1]) @ k_BKSE.mT).view(B, H, T, -1).float() * scale
    if bias_BHTS is not None:
        scores_BHTS = scores_BHTS + bias_BHTS
    return scores_BHTS if softcap is None else softcap * torch.tanh(scores_BHTS / softcap)


def attention_weights(scores_BHTS: Tensor, allowed: Tensor | None, sink_H: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Attention weights, the softmax where `allowed`, (B, H, T, S); and the weight (B, H, T, 1) of each head's sink."""
    if allowed is not None:
        scores_BHTS = scores_BHTS.masked_fill(~allowed, float("-inf"))
    if sink_H is None:
        return scores_BHTS.softmax(-1), None
    B, H, T, _ = scores_BHTS.shape
    whole = torch.cat([scores_BHTS.float(), sink_H.float()[:, None, None].expand(B, H, T, 1)], -1).softmax(-1)
    return whole[..., :-1], whole[..., -1:]
