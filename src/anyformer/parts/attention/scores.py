"""The steps of attention that write scores out: scores, shares, and heads side by side by the keys they read."""

from __future__ import annotations

import torch
from torch import Tensor


def side_by_side(x_BHTE: Tensor, groups: int) -> Tensor:
    """(B, H, T, E) -> (B, K, H / K * T, E): query heads that read the same keys, so that keys are never copied per head."""
    B, H, T, E = x_BHTE.shape
    return x_BHTE.reshape(B, groups, H // groups * T, E)


def scores(q_BHTE: Tensor, k_BKSE: Tensor, scale: float, bias_BHTS: Tensor | None, softcap: float | None) -> Tensor:
    """cap(q k^T * scale + bias) in fp32, (B, H, T, S)."""
    B, H, T, _ = q_BHTE.shape
    found = (side_by_side(q_BHTE, k_BKSE.shape[1]) @ k_BKSE.mT).view(B, H, T, -1).float() * scale
    if bias_BHTS is not None:
        found = found + bias_BHTS
    return found if softcap is None else softcap * torch.tanh(found / softcap)


def shares(scores_BHTS: Tensor, allowed: Tensor | None, sink_H: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """softmax where `allowed`, (B, H, T, S); and the share (B, H, T, 1) of a sink, which is one more score of each head."""
    if allowed is not None:
        scores_BHTS = scores_BHTS.masked_fill(~allowed, float("-inf"))
    if sink_H is None:
        return scores_BHTS.softmax(-1), None
    B, H, T, _ = scores_BHTS.shape
    whole = torch.cat([scores_BHTS, sink_H.float()[:, None, None].expand(B, H, T, 1)], -1).softmax(-1)
    return whole[..., :-1], whole[..., -1:]
