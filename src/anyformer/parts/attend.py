"""Attention proper: scores, softmax, mixing, as one pure function with two kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.context import Visible

PLAIN_LIMIT = 512
"""Longest key length at which a compiled CPU step writes attention out: past it the (T, S) scores cost more than they save."""


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    visible: Visible,
    *,
    scale: float,
    softcap: float | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    kernel: str = "auto",
) -> Tensor:
    """softmax(cap(q k^T * scale) where visible) v -> (B, H, T, E); query head h reads kv head h // (H / K).

    cap(s) = softcap * tanh(s / softcap), before the mask, so that masked scores stay -inf (Gemma 2).
    """
    if kernel == "auto":
        kernel = _choose(q_BHTE, k_BKSE)
    if kernel == "plain" or softcap is not None or dropout is not None:
        return _plain(q_BHTE, k_BKSE, v_BKSE, visible, scale, softcap, dropout)
    return F.scaled_dot_product_attention(
        q_BHTE,
        k_BKSE,
        v_BKSE,
        attn_mask=None if visible.causal else visible.allowed,
        is_causal=visible.causal,
        scale=scale,
        enable_gqa=q_BHTE.shape[1] != k_BKSE.shape[1],
    )


def _choose(q: Tensor, k: Tensor) -> str:
    """On a CPU a compiler fuses written-out attention better than the flash kernel runs, as long as the scores are small."""
    if q.device.type == "cpu" and torch.compiler.is_compiling() and k.shape[2] <= PLAIN_LIMIT:
        return "plain"
    return "sdpa"


def _plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visible,
    scale: float,
    softcap: float | None,
    dropout: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    B, H, T, E = q.shape
    K, S = k.shape[1], k.shape[2]
    # Query heads of one group stand side by side, so that keys are never copied per head.
    scores = (q.reshape(B, K, H // K * T, E) @ k.mT).view(B, H, T, S).float() * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if visible.allowed is not None:
        scores = scores.masked_fill(~visible.allowed, float("-inf"))
    share = scores.softmax(-1).to(v.dtype)
    if dropout is not None:
        share = dropout(share)
    return (share.view(B, K, H // K * T, S) @ v).view(B, H, T, v.shape[-1])
