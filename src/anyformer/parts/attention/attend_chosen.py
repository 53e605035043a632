"""Attention over the keys that were chosen per query: gathered by blocks of queries, and again in the backward pass.

Time and memory grow with the number of chosen keys: of T queries with k keys each, no more than one block is gathered at once.
An operator of its own, as attention by blocks of queries is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyformer.parts.attention.chosen_keys import blocks, gathered, scattered
from anyformer.parts.call.opened import OpenedPart

Result = tuple[Tensor, Tensor]


def attend_chosen(
    q_BTHE: Tensor,
    k_BSKE: Tensor,
    v_BSKU: Tensor | int,
    indices_BTk: Tensor | None,
    allowed_BTk: Tensor | None,
    *,
    scale: float,
    sink_H: Tensor | None = None,
    plain: bool = False,
    shown: OpenedPart | None = None,
) -> Result:
    """softmax(q k^T * scale where allowed) v over the keys at `indices` (all S if None): (B, T, H, U), and (B, T, k) the mean
    over heads of the attention weights, in fp32 and without a gradient.

    Query head h reads kv head h // (H / K). `v`: a number U says that the values are the first U features of the keys, which
    are gathered once. A sink takes part in the softmax of its head and has no value. `plain`: written out, with gradients by
    torch, as it is where somebody asks for scores or weights (`shown`).
    """
    width = v_BSKU if isinstance(v_BSKU, int) else v_BSKU.shape[-1]
    values = None if isinstance(v_BSKU, int) else v_BSKU
    if plain or q_BTHE.is_meta or q_BTHE.shape[1] == 1 or shown is not None:
        return _written_out(q_BTHE, k_BSKE, values, sink_H, width, indices_BTk, allowed_BTk, scale, shown)
    mixed, share = _attend(q_BTHE, k_BSKE, values, sink_H, width, indices_BTk, allowed_BTk, scale)
    return mixed, share


def _some(x_BSKE: Tensor, indices: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(B, T or 1, K, k or S, E), the keys of each query, of which those alone are converted."""
    some = x_BSKE.transpose(1, 2)[:, None] if indices is None else gathered(x_BSKE, indices).transpose(2, 3)
    return some.to(dtype)


def _times(x_BTKGE: Tensor, some_BTKkE: Tensor) -> Tensor:
    """x k^T, (B, T, K, G, k); keys that all queries share are copied for none."""
    if some_BTKkE.shape[1] == x_BTKGE.shape[1]:
        return x_BTKGE @ some_BTKkE.mT
    B, T, K, G, _ = x_BTKGE.shape
    flat = x_BTKGE.transpose(1, 2).flatten(2, 3) @ some_BTKkE[:, 0].mT
    return flat.view(B, K, T, G, -1).transpose(1, 2)


def _weights(
    q: Tensor, keys: Tensor, sink: Tensor | None, allowed: Tensor | None, scale: float, shown: OpenedPart | None = None
) -> Tensor:
    """Attention weights in fp32, (B, T, K, G, k), which with a sink add up to less than 1."""
    B, T, _, E = q.shape
    scores = _times(q.view(B, T, keys.shape[2], -1, E), keys).float() * scale
    if allowed is not None:
        scores = scores.masked_fill(~allowed[:, :, None, None], float("-inf"))
    if shown is not None:
        scores = by_query("scores", scores, shown)
        scores = scores if allowed is None else scores.masked_fill(~allowed[:, :, None, None], float("-inf"))
    if sink is None:
        return scores.softmax(-1) if shown is None else by_query("weights", scores.softmax(-1), shown)
    beside = sink.to(scores.dtype).view(keys.shape[2], -1, 1).expand(*scores.shape[:-1], 1)
    weights = torch.cat([scores, beside], -1).softmax(-1)[..., :-1]
    return weights if shown is None else by_query("weights", weights, shown)


def by_query(name: str, x_BTKGk: Tensor, shown: OpenedPart) -> Tensor:
    """What each query has of its keys, (B, T, K, G, k), seen as (B, H, T, k)."""
    seen_BHTk = shown.see(name, x_BTKGk.flatten(2, 3).transpose(1, 2))
    return torch.unflatten(seen_BHTk.transpose(1, 2), 2, x_BTKGk.shape[2:4])


def _values(keys: Tensor, v: Tensor | None, width: int, indices: Tensor | None) -> Tensor:
    return keys[..., :width] if v is None else _some(v, indices, keys.dtype)


def _written_out(
    q: Tensor, k: Tensor, v: Tensor | None, sink: Tensor | None, width: int, indices: Tensor | None, allowed: Tensor | None,
    scale: float, shown: OpenedPart | None = None,
) -> Result:  # fmt: skip
    keys = _some(k, indices, q.dtype)
    weights = _weights(q, keys, sink, allowed, scale, shown)
    values = _values(keys, v, width, indices)
    mixed = _times(weights.to(values.dtype), values.mT).flatten(2, 3)
    return mixed, weights.detach().mean((2, 3))


def _sizes(q: Tensor, k: Tensor, indices: Tensor | None) -> int:
    """Numbers of one query: its gathered keys, or its scores."""
    (B, _, H, E), (_, S, K, _) = q.shape, k.shape
    return B * S * H if indices is None else B * indices.shape[-1] * max(K * E, H)


@torch.library.custom_op("anyformer::attend_chosen", mutates_args=())
def _attend(
    q: Tensor, k: Tensor, v: Tensor | None, sink: Tensor | None, width: int, indices: Tensor | None, allowed: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    B, T, H, _ = q.shape
    count = k.shape[1] if indices is None else indices.shape[-1]
    mixed, share = q.new_empty(B, T, H, width), q.new_empty((B, T, count), dtype=torch.float32)
    for rows in blocks(T, _sizes(q, k, indices), whole=False):
        own = None if indices is None else indices[:, rows]
        seen = None if allowed is None else allowed[:, rows]
        mixed[:, rows], share[:, rows] = _written_out(q[:, rows], k, v, sink, width, own, seen, scale)
    return mixed, share


@torch.library.custom_op("anyformer::attend_chosen_backward", mutates_args=())
def _attend_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor | None, sink: Tensor | None, width: int, indices: Tensor | None,
    allowed: Tensor | None, scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k, v and the sink; that of v is empty if the values are features of the keys, that of a sink without
    one.

    P = softmax(scores): dV = P^T dO, dP = dO V^T, dscores = P (dP - sum_k P dP), whose last term is that of a sink too.
    """
    B, T, H, E = q.shape
    K = k.shape[2]
    dq = torch.empty_like(q)
    # Sums over queries are taken in fp32, as within one product.
    dk = torch.zeros(k.shape, dtype=torch.float32, device=k.device)
    dv = dk[..., :width] if v is None else torch.zeros(v.shape, dtype=torch.float32, device=k.device)
    d_sink = torch.zeros(H if sink is not None else 0, dtype=torch.float32, device=k.device)
    for rows in blocks(T, _sizes(q, k, indices), whole=False):
        own = None if indices is None else indices[:, rows]
        seen = None if allowed is None else allowed[:, rows]
        keys = _some(k, own, q.dtype)
        weights, values = _weights(q[:, rows], keys, sink, seen, scale), _values(keys, v, width, own)
        d_mixed = gradient[:, rows].reshape(B, -1, K, H // K, width)
        d_weights = _times(d_mixed, values).float()
        along = (d_weights * weights).sum(-1, keepdim=True)
        if sink is not None:
            d_sink -= ((1 - weights.sum(-1, keepdim=True)) * along).sum((0, 1)).flatten()
        d_scores = weights * (d_weights - along) * scale
        d_scores, of_group = d_scores.to(q.dtype), q[:, rows].view(B, -1, K, H // K, E)
        dq[:, rows] = _times(d_scores, keys.mT).flatten(2, 3)
        d_values = _each_key(weights.to(q.dtype), d_mixed, own)
        d_keys = _each_key(d_scores, of_group, own)
        if own is None:
            dk += d_keys
            dv += d_values
        elif v is None:
            d_keys[..., :width] += d_values
            scattered(dk.view(B, -1, K * E), own, d_keys.flatten(3))
        else:
            scattered(dk.view(B, -1, K * E), own, d_keys.flatten(3))
            scattered(dv.view(B, -1, K * width), own, d_values.flatten(3))
    return dq, dk.to(k.dtype), q.new_empty(0) if v is None else dv.to(v.dtype), d_sink


def _each_key(weights_BTKGk: Tensor, x_BTKGE: Tensor, indices: Tensor | None) -> Tensor:
    """weights^T x: for the keys of each query, (B, T, k, K, E), or summed over queries that share all keys, (B, S, K, E)."""
    if indices is not None:
        return (weights_BTKGk.mT @ x_BTKGE).transpose(2, 3)
    flat = weights_BTKGk.transpose(1, 2).flatten(2, 3).mT @ x_BTKGE.transpose(1, 2).flatten(2, 3)
    return flat.transpose(1, 2)


ATTEND = torch.ops.anyformer.attend_chosen.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_attend.register_fake
def _(q, k, v, sink, width, indices, allowed, scale):  # type: ignore[no-untyped-def]
    count = k.shape[1] if indices is None else indices.shape[-1]
    return q.new_empty(*q.shape[:3], width), q.new_empty((*q.shape[:2], count), dtype=torch.float32)


@_attend_backward.register_fake
def _(gradient, q, k, v, sink, width, indices, allowed, scale):  # type: ignore[no-untyped-def]
    d_sink = q.new_empty(q.shape[2] if sink is not None else 0, dtype=torch.float32)
    return torch.empty_like(q), k.new_empty(k.shape), q.new_empty(0) if v is None else v.new_empty(v.shape), d_sink


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Result) -> None:
    q, k, v, sink, ctx.width, indices, allowed, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, sink, indices, allowed)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, sink, indices, allowed = ctx.saved_tensors
    dq, dk, dv, d_sink = _attend_backward(gradient, q, k, v, sink, ctx.width, indices, allowed, ctx.scale)
    d_sink = None if sink is None else d_sink.to(sink.dtype)
    return dq, dk, None if v is None else dv, d_sink, None, None, None, None


_attend.register_autograd(_gradients, setup_context=_keep)
