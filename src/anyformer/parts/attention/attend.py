"""The function of attention: scores, softmax and mixing, with four kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.attention.attend_blocks import attend_blocks
from anyformer.parts.attention.attend_native import attend_native, suits_native
from anyformer.parts.attention.named_values_module import scores_seen
from anyformer.parts.attention.scores import attention_weights, by_group, scores
from anyformer.parts.call.context import Visible
from anyformer.parts.call.noise import Drop
from anyformer.parts.call.opened import OpenedPart
from anyformer.processor import multiplies_tiles

Kernel = Literal["plain", "blocks", "sdpa", "native"]
PLAIN_LIMIT = 256
"""The most keys for which `auto` writes attention out: beyond, the scores cost more than they save."""


def kernel_of(attention: str, queries: int, keys: int, *, own: bool) -> Kernel:
    """The kernel for a plan's `attention`; `own`: with a cap, a sink or our own dropout, which torch's kernel lacks.

    Such an attention goes by blocks of queries if scores may not be written (`sdpa`), and beyond `PLAIN_LIMIT` keys (`auto`).
    """
    if attention == "plain":
        return "plain"
    if not own:
        return "sdpa"
    return "blocks" if attention == "sdpa" or (queries > 1 and keys > PLAIN_LIMIT) else "plain"


def attend(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSU: Tensor,
    visible: Visible,
    bias_BHTS: Tensor | None = None,
    *,
    scale: float,
    softcap: float | None = None,
    sink_H: Tensor | None = None,
    drop: Drop | None = None,
    weigh: Callable[[Tensor, Tensor | None], Tensor] | None = None,
    kernel: str = "auto",
    shown: OpenedPart | None = None,
) -> Tensor:
    """softmax(cap(q k^T * scale + bias) where visible) v -> (B, H, T, U); query head h reads kv head h // (H / K).

    cap(s) = softcap * tanh(s / softcap), before the mask, so that masked scores stay -inf (Gemma 2). A bias may have 1 for
    B or T. A sink is one more score per head that takes part in the softmax and has no value, so that attention weights sum
    to less than 1 (gpt-oss). What `weigh` puts in the place of the softmax has its scores written out by any kernel. U, the
    width of a value head, may differ from E. `shown`: who asks for scores and weights, which are then written out.
    """
    if visible.band is not None:
        assert shown is None, "scores are seen of all pairs, so a layer that shows them asks for no band"
        assert bias_BHTS is None, "a bias is laid out for all pairs, so its layer asks for no band"
        assert drop is None, "noise is drawn for all pairs, so a layer that drops asks for no band"
        attend_blockwise = partial(attend, scale=scale, softcap=softcap, sink_H=sink_H, weigh=weigh, kernel=kernel)
        return _banded(attend_blockwise, q_BHTE, k_BKSE, v_BKSU, visible)
    own = softcap is not None or sink_H is not None or drop is not None
    used = "plain" if shown is not None else kernel_of(kernel, q_BHTE.shape[2], k_BKSE.shape[2], own=own)
    whole = visible.allowed is None and bias_BHTS is None and weigh is None
    if used == "sdpa" and kernel == "native" and whole and suits_native(q_BHTE, k_BKSE, v_BKSU, causal=visible.causal):
        return attend_native(q_BHTE, k_BKSE, v_BKSU, causal=visible.causal, scale=scale)
    if used == "sdpa" and kernel != "sdpa" and _plain_is_faster(q_BHTE, k_BKSE, v_BKSU):
        used = "plain"
    # On the meta device every product is counted as itself.
    if used == "plain" or weigh is not None or (used == "blocks" and q_BHTE.is_meta):
        allowed, scored = visible.dense(q_BHTE.shape[2], q_BHTE.device), scores(q_BHTE, k_BKSE, scale, bias_BHTS, softcap)
        scored = scored if shown is None else scores_seen(scored, allowed, shown)
        weights = attention_weights(scored, allowed, sink_H)[0] if weigh is None else weigh(scored.float(), allowed)
        weights = weights.to(v_BKSU.dtype) if shown is None else shown.see("weights", weights.to(v_BKSU.dtype))
        weights = weights if drop is None else drop(weights)
        return (by_group(weights, k_BKSE.shape[1]) @ v_BKSU).view(*q_BHTE.shape[:3], v_BKSU.shape[-1])
    if used == "sdpa":
        return _fused(q_BHTE, k_BKSE, v_BKSU, visible, scale, bias_BHTS)
    return attend_blocks(
        q_BHTE, k_BKSE, v_BKSU, visible.allowed, causal=visible.causal, scale=scale, softcap=softcap, bias_BHTS=bias_BHTS,
        sink_H=sink_H, drop=drop,
    )  # fmt: skip


def _plain_is_faster(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the plain kernel beats torch's: on a CPU, for one query, which a compiler fuses, and for few keys of 16 bits.

    `python -m benchmarks.parts --only "one query"` measures it: up to 6 times faster in bfloat16 on a processor without AMX.
    """
    if q.device.type != "cpu":
        return False
    one, narrow = q.shape[2] == 1, q.dtype.itemsize == 2
    if torch.compiler.is_compiling():  # which cannot look into questions about the processor
        return one or (narrow and k.shape[2] <= PLAIN_LIMIT)
    return one and narrow and not (multiplies_tiles() and k.shape[-1] == v.shape[-1])


def _banded(attend_block: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, visible: Visible) -> Tensor:
    """Every block of queries as a row of its own, with the keys of its band."""
    band = visible.band
    assert band is not None
    assert visible.allowed is not None
    q_BHTE, k_BKSE, v_BKSU = (
        cut(x.transpose(1, 2)).flatten(0, 1).transpose(1, 2)
        for cut, x in ((band.blocks, q), (band.surroundings, k), (band.surroundings, v))
    )
    allowed = visible.allowed.expand(len(q), -1, -1, -1).flatten(0, 1)[:, None]
    mixed_BHTU = attend_block(q_BHTE, k_BKSE, v_BKSU, Visible(allowed))
    mixed_BTHU = torch.unflatten(mixed_BHTU.transpose(1, 2), 0, (len(q), -1)).flatten(1, 2)
    return mixed_BTHU[:, : q.shape[2]].transpose(1, 2)


def _fused(q: Tensor, k: Tensor, v: Tensor, visible: Visible, scale: float, bias: Tensor | None) -> Tensor:
    """torch's kernel, which takes a bias as a mask of numbers."""
    mask, causal = visible.allowed, visible.causal
    if bias is not None:
        mask = visible.dense(q.shape[2], q.device)
        scores = bias if mask is None else torch.where(mask, bias, float("-inf"))
        mask, causal = scores.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]), False
    groups = k.shape[1]
    if q.shape[1] != groups and q.shape[2] == 1 and q.device.type == "cpu":
        # The query heads of a group are as many queries: so on a CPU torch's kernel reads their keys once.
        mask = mask if mask is None or mask.shape[1] == 1 else by_group(mask, groups)
        mixed = F.scaled_dot_product_attention(by_group(q, groups), k, v, attn_mask=mask, scale=scale)
        return mixed.view(*q.shape[:3], v.shape[-1])
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != groups
    )
