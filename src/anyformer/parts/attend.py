"""Attention proper: scores, softmax, mixing, as one pure function with two kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.band import Band
from anyformer.parts.context import Visible

PLAIN_LIMIT = 256
"""Longest key length at which a compiled step of 16 bits writes attention out: past it the scores cost more than they save."""


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSE: Tensor,
    visible: Visible,
    *,
    scale: float,
    softcap: float | None = None,
    bias_BHTS: Tensor | None = None,
    sink_H: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    kernel: str = "auto",
) -> Tensor:
    """softmax(cap(q k^T * scale + bias) where visible) v -> (B, H, T, U); query head h reads kv head h // (H / K).

    cap(s) = softcap * tanh(s / softcap), before the mask, so that masked scores stay -inf (Gemma 2). A bias may have 1 for
    B or T. A sink is one more score per head that takes part in the softmax and has no value: shares may sum to less than
    1 (gpt-oss). U, the width of a value head, may differ from E.
    """
    if visible.band is not None:
        assert bias_BHTS is None, "a bias is laid out for all pairs, so its layer asks for no band"
        assert dropout is None, "noise is drawn for all pairs, so a layer that drops asks for no band"
        return _banded(q_BHTE, k_BKSE, v_BKSE, visible, visible.band, scale, softcap, sink_H, kernel)
    if kernel == "auto":
        kernel = _choose(q_BHTE, k_BKSE)
    # torch's kernel knows neither caps nor sinks, and its dropout is not a function of the global row.
    if kernel == "plain" or softcap is not None or sink_H is not None or dropout is not None:
        return _plain(q_BHTE, k_BKSE, v_BKSE, visible, scale, softcap, bias_BHTS, sink_H, dropout)
    return _fused(q_BHTE, k_BKSE, v_BKSE, visible, scale, bias_BHTS)


def _choose(q: Tensor, k: Tensor) -> str:
    """torch's kernel, but on a CPU where writing attention out is quicker: one query, which a compiler fuses, and 16 bits.

    `python -m benchmarks.parts --only "one query"` measures it: up to 6 times quicker in bfloat16.
    """
    one, narrow, compiles = q.shape[2] == 1, q.dtype.itemsize == 2, torch.compiler.is_compiling()
    if q.device.type == "cpu" and ((one and (narrow or compiles)) or (narrow and compiles and k.shape[2] <= PLAIN_LIMIT)):
        return "plain"
    return "sdpa"


def _banded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visible,
    band: Band,
    scale: float,
    softcap: float | None,
    sink: Tensor | None,
    kernel: str,
) -> Tensor:
    """Every block of queries as a row of its own, beside the keys of its band."""
    assert visible.allowed is not None
    q_NHTE, k_NKSE, v_NKSU = (
        cut(x.transpose(1, 2)).flatten(0, 1).transpose(1, 2)
        for cut, x in ((band.blocks, q), (band.surroundings, k), (band.surroundings, v))
    )
    allowed = visible.allowed.expand(len(q), -1, -1, -1).flatten(0, 1)[:, None]
    mixed_NHTU = attend(q_NHTE, k_NKSE, v_NKSU, Visible(allowed), scale=scale, softcap=softcap, sink_H=sink, kernel=kernel)
    mixed_BTHU = torch.unflatten(mixed_NHTU.transpose(1, 2), 0, (len(q), -1)).flatten(1, 2)
    return mixed_BTHU[:, : q.shape[2]].transpose(1, 2)


def _plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visible,
    scale: float,
    softcap: float | None,
    bias: Tensor | None,
    sink: Tensor | None,
    dropout: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    B, H, T, E = q.shape
    K, S = k.shape[1], k.shape[2]
    # Query heads of one group stand side by side, so that keys are never copied per head.
    scores = (q.reshape(B, K, H // K * T, E) @ k.mT).view(B, H, T, S).float() * scale
    if bias is not None:
        scores = scores + bias
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    allowed = visible.over(T, q.device)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    if sink is None:
        share = scores.softmax(-1)
    else:
        share = torch.cat([scores, sink.float()[:, None, None].expand(B, H, T, 1)], -1).softmax(-1)[..., :-1]
    share = share.to(v.dtype)
    if dropout is not None:
        share = dropout(share)
    return (share.reshape(B, K, H // K * T, S) @ v).view(B, H, T, v.shape[-1])


def _fused(q: Tensor, k: Tensor, v: Tensor, visible: Visible, scale: float, bias: Tensor | None) -> Tensor:
    """torch's kernel; a bias goes in as a mask of numbers."""
    mask, causal = visible.allowed, visible.causal
    if bias is not None:
        mask = visible.over(q.shape[2], q.device)
        scores = bias if mask is None else torch.where(mask, bias, float("-inf"))
        mask, causal = scores.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]), False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
