"""Attention proper: scores, softmax, mixing, as one pure function with three kernels."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.attention.attend_blocks import attend_blocks
from anyformer.parts.attention.scores import scores, shares, side_by_side
from anyformer.parts.call.context import Visible
from anyformer.parts.call.noise import Drop
from anyformer.parts.masks.band import Band

Kernel = Literal["plain", "blocks", "sdpa"]
PLAIN_LIMIT = 256
"""Longest key length at which attention is written out by choice: past it the scores cost more than they save."""


def kernel_of(asked: str, queries: int, keys: int, *, own: bool) -> Kernel:
    """The kernel for a plan's `attention`; `own`: with a cap, a sink or dropout by our bits, none of which torch's computes.

    What torch's kernel does not compute goes by blocks of queries wherever no scores may be written; by choice (`auto`) past
    `PLAIN_LIMIT` keys.
    """
    if asked == "plain":
        return "plain"
    if not own:
        return "sdpa"
    return "blocks" if asked == "sdpa" or (queries > 1 and keys > PLAIN_LIMIT) else "plain"


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSU: Tensor,
    visible: Visible,
    *,
    scale: float,
    softcap: float | None = None,
    bias_BHTS: Tensor | None = None,
    sink_H: Tensor | None = None,
    drop: Drop | None = None,
    kernel: str = "auto",
) -> Tensor:
    """softmax(cap(q k^T * scale + bias) where visible) v -> (B, H, T, U); query head h reads kv head h // (H / K).

    cap(s) = softcap * tanh(s / softcap), before the mask, so that masked scores stay -inf (Gemma 2). A bias may have 1 for
    B or T. A sink is one more score per head that takes part in the softmax and has no value: shares may sum to less than
    1 (gpt-oss). U, the width of a value head, may differ from E.
    """
    if visible.band is not None:
        assert bias_BHTS is None, "a bias is laid out for all pairs, so its layer asks for no band"
        assert drop is None, "noise is drawn for all pairs, so a layer that drops asks for no band"
        return _banded(q_BHTE, k_BKSE, v_BKSU, visible, visible.band, scale, softcap, sink_H, kernel)
    own = softcap is not None or sink_H is not None or drop is not None
    chosen = kernel_of(kernel, q_BHTE.shape[2], k_BKSE.shape[2], own=own)
    if chosen == "sdpa" and kernel == "auto" and _written_out_is_quicker(q_BHTE, k_BKSE):
        chosen = "plain"
    # On the meta device every product is counted as itself.
    if chosen == "plain" or (chosen == "blocks" and q_BHTE.is_meta):
        return _plain(q_BHTE, k_BKSE, v_BKSU, visible, scale, softcap, bias_BHTS, sink_H, drop)
    if chosen == "sdpa":
        return _fused(q_BHTE, k_BKSE, v_BKSU, visible, scale, bias_BHTS)
    return attend_blocks(
        q_BHTE, k_BKSE, v_BKSU, visible.allowed, causal=visible.causal, scale=scale, softcap=softcap, bias_BHTS=bias_BHTS,
        sink_H=sink_H, drop=drop,
    )  # fmt: skip


def _written_out_is_quicker(q: Tensor, k: Tensor) -> bool:
    """Than torch's kernel, on a CPU: for one query, which a compiler fuses, and for few keys of 16 bits.

    `python -m benchmarks.parts --only "one query"` measures it: up to 6 times quicker in bfloat16.
    """
    one, narrow, compiles = q.shape[2] == 1, q.dtype.itemsize == 2, torch.compiler.is_compiling()
    return q.device.type == "cpu" and ((one and (narrow or compiles)) or (narrow and compiles and k.shape[2] <= PLAIN_LIMIT))


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
    q_BHTE, k_BKSE, v_BKSU = (
        cut(x.transpose(1, 2)).flatten(0, 1).transpose(1, 2)
        for cut, x in ((band.blocks, q), (band.surroundings, k), (band.surroundings, v))
    )
    allowed = visible.allowed.expand(len(q), -1, -1, -1).flatten(0, 1)[:, None]
    mixed_BHTU = attend(q_BHTE, k_BKSE, v_BKSU, Visible(allowed), scale=scale, softcap=softcap, sink_H=sink, kernel=kernel)
    mixed_BTHU = torch.unflatten(mixed_BHTU.transpose(1, 2), 0, (len(q), -1)).flatten(1, 2)
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
    drop: Drop | None,
) -> Tensor:
    share, _ = shares(scores(q, k, scale, bias, softcap), visible.dense(q.shape[2], q.device), sink)
    used = share.to(v.dtype)
    if drop is not None:
        used = drop(used)
    return (side_by_side(used, k.shape[1]) @ v).view(*q.shape[:3], v.shape[-1])


def _fused(q: Tensor, k: Tensor, v: Tensor, visible: Visible, scale: float, bias: Tensor | None) -> Tensor:
    """torch's kernel; a bias goes in as a mask of numbers."""
    mask, causal = visible.allowed, visible.causal
    if bias is not None:
        mask = visible.dense(q.shape[2], q.device)
        scores = bias if mask is None else torch.where(mask, bias, float("-inf"))
        mask, causal = scores.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]), False
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
