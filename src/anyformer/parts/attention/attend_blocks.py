"""Attention by blocks of query rows: scores of one block at a time, computed again in the backward pass.

It computes what torch's kernel lacks: caps, sinks, and dropout whose bits are a function of the global row. It saves q, k and
v for the backward pass, no scores, and takes the steps and types of the plain kernel. It is an operator of its own, because a
compiler that saw the steps would find the scores of both passes equal and save them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.parts.attention.scores import attention_weights, by_group, scores
from anyformer.parts.call.noise import Drop, Noise, bits_of, keep_factors


def attend_blocks(
    q_BHTE: Tensor,
    k_BKSE: Tensor,
    v_BKSU: Tensor,
    allowed: Tensor | None,
    *,
    causal: bool,
    scale: float,
    softcap: float | None = None,
    bias_BHTS: Tensor | None = None,
    sink_H: Tensor | None = None,
    drop: Drop | None = None,
) -> Tensor:
    """`attend`, (B, H, T, U). `causal`: the mask is the lower triangle of a square, and `allowed` is None."""
    key, rows, at, site, rate, first, length = None, None, None, 0, 0.0, 0, q_BHTE.shape[2]
    if drop is not None:
        key, rows, site, rate = drop.noise.key, drop.noise.rows, drop.site, drop.rate
        first = 0 if drop.part is None else drop.part.number * q_BHTE.shape[1]
        if drop.noise.span is not None:
            at, length = drop.noise.span.numbers, drop.noise.span.length
    mixed: Tensor = _attend(
        q_BHTE, k_BKSE, v_BKSU, allowed, bias_BHTS, sink_H, key, rows, at, site, rate, first, length, causal, scale, softcap
    )  # fmt: skip
    return mixed


@dataclass(frozen=True)
class _Call:
    """The arguments of the operators, except q, k and v."""

    allowed: Tensor | None
    bias: Tensor | None
    sink: Tensor | None
    key: Tensor | None
    rows: Tensor | None
    at: Tensor | None
    """The number of each query's position, (T,), where processes divide positions."""
    site: int
    rate: float
    first: int
    """The number of the first head, where processes divide the heads."""
    length: int
    """The queries of all processes."""
    causal: bool
    scale: float
    softcap: float | None

    def blocks(self, q: Tensor, k: Tensor) -> Iterator[tuple[slice, slice]]:
        """(queries, their keys) of each block, which has as many scores, rows * S, as all queries have features, T * E."""
        (T, E), S = q.shape[2:], k.shape[2]
        size = max(1, T * E // S)
        for first in range(0, T, size):
            last = min(first + size, T)
            yield slice(first, last), slice(0, last if self.causal else S)

    def scores(self, q: Tensor, k: Tensor, queries: slice, keys: slice) -> Tensor:
        """Scores of a block, (B, H, rows, keys) in fp32, before the mask."""
        bias = None if self.bias is None else _cut(self.bias, queries, keys)
        return scores(q[:, :, queries], k[:, :, keys], self.scale, bias, self.softcap)

    def weights(self, scores: Tensor, queries: slice, keys: slice) -> tuple[Tensor, Tensor | None]:
        """Attention weights of a block, (B, H, rows, keys) in fp32, and the weight of a sink."""
        allowed = None if self.allowed is None else _cut(self.allowed, queries, keys)
        if self.causal:
            allowed = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril(queries.start)
        return attention_weights(scores, allowed, self.sink)

    def factors(self, q: Tensor, k: Tensor, queries: slice, keys: slice) -> Tensor | None:
        """Factors of dropout for the elements of (B, H, T, S) in this block."""
        if self.key is None or self.rows is None:
            return None
        head = torch.arange(self.first, self.first + q.shape[1], device=q.device)[:, None]
        query = torch.arange(queries.start, queries.stop, device=q.device) if self.at is None else self.at[queries]
        elements = (head * self.length + query)[..., None] * k.shape[2] + torch.arange(keys.stop, device=q.device)
        return keep_factors(bits_of(Noise(self.key, self.rows), self.site, elements), self.rate).to(q.dtype)


def _cut(x: Tensor, queries: slice, keys: slice) -> Tensor:
    """A view of the elements of a block, of x: (.., T or 1, S)."""
    return x[:, :, queries if x.shape[2] > 1 else slice(None), keys]


def _heads_side_by_side(q: Tensor, v: Tensor) -> Tensor:
    """An empty (B, H, T, U), in memory (B, T, H, U) like the result of torch's kernel, so that projecting it copies nothing."""
    B, H, T, _ = q.shape
    return q.new_empty(B, T, H, v.shape[-1]).transpose(1, 2)


@torch.library.custom_op("anyformer::attend_blocks", mutates_args=())
def _attend(
    q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None, sink: Tensor | None, key: Tensor | None,
    rows: Tensor | None, at: Tensor | None, site: int, rate: float, first: int, length: int, causal: bool, scale: float,
    softcap: float | None,
) -> Tensor:  # fmt: skip
    call = _Call(allowed, bias, sink, key, rows, at, site, rate, first, length, causal, scale, softcap)
    K, k, v = k.shape[1], k.contiguous(), v.contiguous()
    mixed = _heads_side_by_side(q, v)
    for queries, keys in call.blocks(q, k):
        used = call.weights(call.scores(q, k, queries, keys), queries, keys)[0].to(v.dtype)
        factors = call.factors(q, k, queries, keys)
        used = used if factors is None else used * factors
        mixed[:, :, queries] = (by_group(used, K) @ v[:, :, keys]).view_as(mixed[:, :, queries])
    return mixed


@torch.library.custom_op("anyformer::attend_blocks_backward", mutates_args=())
def _attend_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None, sink: Tensor | None,
    key: Tensor | None, rows: Tensor | None, at: Tensor | None, site: int, rate: float, first: int, length: int, causal: bool,
    scale: float, softcap: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of q, k, v, bias and sink; the last two are empty without bias and sink.

    P = softmax(scores), D = factors of dropout: dV = (P D)^T dO, dP = (dO V^T) D, dscores = P (dP - sum_s P dP).
    """
    call = _Call(allowed, bias, sink, key, rows, at, site, rate, first, length, causal, scale, softcap)
    K, k, v, dq = k.shape[1], k.contiguous(), v.contiguous(), torch.empty_like(q)
    # Sums over blocks are taken in fp32, as within one product.
    dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (k, v))
    d_bias, d_sink = (q.new_zeros(() if x is None else x.shape, dtype=torch.float32) for x in (bias, sink))
    for queries, keys in call.blocks(q, k):
        capped = call.scores(q, k, queries, keys)
        weights, sink_weights = call.weights(capped, queries, keys)
        used, factors = weights.to(v.dtype), call.factors(q, k, queries, keys)
        d_mixed = by_group(gradient[:, :, queries], K)
        dv[:, :, keys] += by_group(used if factors is None else used * factors, K).mT @ d_mixed
        d_used = (d_mixed @ v[:, :, keys].mT).view_as(weights)
        d_weights = (d_used if factors is None else d_used * factors).float()
        common = (d_weights * weights).sum(-1, keepdim=True)
        if sink_weights is not None:
            d_sink -= (sink_weights * common).sum((0, 2, 3))
        d_scores = weights * (d_weights - common)
        if softcap is not None:
            d_scores = d_scores * (1 - (capped / softcap).square())
        if bias is not None:
            part = _cut(d_bias, queries, keys)
            part += d_scores.sum_to_size(part.shape)
        d_products = by_group((d_scores * scale).to(q.dtype), K)
        dq[:, :, queries] = (d_products @ k[:, :, keys]).view_as(dq[:, :, queries])
        dk[:, :, keys] += d_products.mT @ by_group(q[:, :, queries], K)
    return dq, dk.to(k.dtype), dv.to(v.dtype), d_bias, d_sink


BLOCKS = torch.ops.anyformer.attend_blocks.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_attend.register_fake
def _(q, k, v, *more):  # type: ignore[no-untyped-def]
    return _heads_side_by_side(q, v)


@_attend_backward.register_fake
def _(gradient, q, k, v, allowed, bias, sink, *more):  # type: ignore[no-untyped-def]
    others = (q.new_empty(() if x is None else x.shape, dtype=torch.float32) for x in (bias, sink))
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), *others


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:6])
    # The call's noise exists once for all layers, so it is not saved here.
    ctx.others = inputs[6:]


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, allowed, bias, sink = ctx.saved_tensors
    dq, dk, dv, d_bias, d_sink = _attend_backward(gradient, q, k, v, allowed, bias, sink, *ctx.others)
    others = (None if x is None else dx.to(x.dtype) for x, dx in ((bias, d_bias), (sink, d_sink)))
    return dq, dk, dv, None, *others, *[None] * 10


_attend.register_autograd(_backward, setup_context=_keep)
