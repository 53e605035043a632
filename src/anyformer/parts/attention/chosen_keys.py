"""Keys chosen per query by index scores: the choice, by blocks of queries, and its gradient at the chosen keys alone.

No matrix of all queries and keys is kept: a block of queries scores every key, keeps the indices and scores of its best, and
the backward pass computes the scores of these again. It is an operator of its own, so that a compiler saves no more either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyformer.parts.call.context import Visible
from anyformer.parts.call.counted import counted

AT_ONCE = 1 << 22
"""Scores, or numbers of chosen keys, of one block of queries."""
NEAREST = 1e-30
"""Scores of exactly 0, which are many after a ReLU, are told apart by this much per key: later ones are preferred."""


@dataclass(frozen=True)
class Chosen:
    """The keys of each query: their places `indices` (B, T, k) among S, and their index `scores` (B, T, k) in fp32.

    A query that sees fewer than k keys has some more indices, whose scores are -inf. k = S: every key in order.
    """

    indices: Tensor
    scores: Tensor
    keys: int
    """S."""

    @property
    def all_keys(self) -> bool:
        """Whether nothing is left out."""
        return self.indices.shape[-1] == self.keys

    @property
    def allowed(self) -> Tensor:
        """True at indices of keys that the query sees, (B, T, k)."""
        return self.scores.detach() > float("-inf")

    def dense(self) -> Tensor:
        """The choice as a mask, bool (B, 1, T, S)."""
        empty = self.indices.new_zeros((*self.indices.shape[:2], self.keys), dtype=torch.bool)
        return empty.scatter(-1, self.indices, self.allowed)[:, None]


def choose(q_BTJE: Tensor, k_BSE: Tensor, weights_BTJ: Tensor, visible: Visible, keep: int) -> Chosen:
    """The min(keep, S) keys of the greatest I = sum_j w_j relu(q_j . k) that a query sees; gradients come from `scores`."""
    allowed = None if visible.allowed is None else visible.allowed[:, 0]
    call = _counted if q_BTJE.is_meta else _choose
    scores, indices = call(q_BTJE, k_BSE, weights_BTJ, allowed, visible.causal, keep)
    return Chosen(indices, scores, k_BSE.shape[1])


def gathered(x: Tensor, indices_BTk: Tensor) -> Tensor:
    """x (B, S, ...) at indices (B, T, k): (B, T, k, ...)."""
    rows = torch.arange(len(x), device=x.device)[:, None, None]
    return x[rows, indices_BTk]


def scattered(into_BSF: Tensor, indices_BTk: Tensor, x_BTkF: Tensor) -> None:
    """Add (B, T, k, F) to `into` (B, S, F), contiguous, at indices (B, T, k)."""
    B, S, F = into_BSF.shape
    rows = indices_BTk + S * torch.arange(B, device=indices_BTk.device)[:, None, None]
    into_BSF.view(B * S, F).index_add_(0, rows.flatten(), x_BTkF.reshape(-1, F).to(into_BSF.dtype))


def blocks(queries: int, each: int, *, whole: bool) -> Iterator[slice]:
    """Blocks of queries that have `each` numbers; `whole`: all of them at once, as where products are counted."""
    size = queries if whole else max(1, AT_ONCE // max(each, 1))
    for first in range(0, queries, size):
        yield slice(first, min(first + size, queries))


def _products(x_BTJE: Tensor, k: Tensor) -> Tensor:
    """x . k of all keys (B, S, E), or of those of each query (B, T, k, E): (B, T, J, S or k) in fp32."""
    if k.dim() == 4:
        return (x_BTJE @ k.mT).float()
    B, T, J, _ = x_BTJE.shape
    return (x_BTJE.flatten(1, 2) @ k.mT).view(B, T, J, -1).float()


def _forward(q: Tensor, k: Tensor, w: Tensor, allowed: Tensor | None, causal: bool, keep: int) -> tuple[Tensor, Tensor]:
    (B, T, J, _), S = q.shape, k.shape[1]
    count = min(keep, S)
    found = q.new_full((B, T, count), float("-inf"), dtype=torch.float32)
    indices = torch.arange(count, device=q.device).expand(B, T, count).contiguous()
    at = torch.arange(S, device=q.device)
    for rows in blocks(T, B * J * S, whole=q.is_meta):
        seen = rows.stop if causal and not q.is_meta else S
        raw = _products(q[:, rows], k[:, :seen]).relu_()
        scores = (w[:, rows, None].float() @ raw)[:, :, 0]
        if causal:
            scores.masked_fill_(at[:seen] > at[rows, None], float("-inf"))
        elif allowed is not None:
            scores.masked_fill_(~allowed[:, rows], float("-inf"))
        if seen <= count:
            found[:, rows, :seen] = scores
            continue
        order = torch.where(scores == 0, (at[:seen] - seen) * NEAREST, scores)
        best = order.topk(count, sorted=False).indices
        indices[:, rows] = best
        found[:, rows] = scores.gather(-1, best)
    return found, indices


def _backward(gradient: Tensor, q: Tensor, k: Tensor, w: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and the weights, from those of the chosen scores; they are 0 where the key is not seen."""
    (B, T, J, E), S, count = q.shape, k.shape[1], indices.shape[-1]
    dq, dw = torch.empty_like(q), torch.empty_like(w)
    dk = torch.zeros((B, S, E), dtype=torch.float32, device=k.device)
    for rows in blocks(T, B * count * max(J, E), whole=q.is_meta):
        some = k if count == S else gathered(k, indices[:, rows])
        raw, d_scores = _products(q[:, rows], some), gradient[:, rows, None]
        dw[:, rows] = (raw.relu() @ d_scores.mT)[..., 0].to(w.dtype)
        d_raw = (w[:, rows, :, None].float() * d_scores * (raw > 0)).to(q.dtype)
        if count == S:
            flat = d_raw.flatten(1, 2)
            dq[:, rows] = (flat @ k).view_as(dq[:, rows])
            dk += flat.mT @ q[:, rows].flatten(1, 2)
        else:
            dq[:, rows] = d_raw @ some
            scattered(dk, indices[:, rows], d_raw.mT @ q[:, rows])
    return dq, dk.to(k.dtype), dw


@torch.library.custom_op("anyformer::choose_keys", mutates_args=())
def _choose(q: Tensor, k: Tensor, w: Tensor, allowed: Tensor | None, causal: bool, keep: int) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return _forward(q, k, w, allowed, causal, keep)


@torch.library.custom_op("anyformer::choose_keys_backward", mutates_args=())
def _choose_backward(gradient: Tensor, q: Tensor, k: Tensor, w: Tensor, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _backward(gradient, q, k, w, indices)


CHOOSE = torch.ops.anyformer.choose_keys.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_choose.register_fake
def _(q, k, w, allowed, causal, keep):  # type: ignore[no-untyped-def]
    shape = (*q.shape[:2], min(keep, k.shape[1]))
    return q.new_empty(shape, dtype=torch.float32), q.new_empty(shape, dtype=torch.int64)


@_choose_backward.register_fake
def _(gradient, q, k, w, indices):  # type: ignore[no-untyped-def]
    return torch.empty_like(q), torch.empty_like(k, memory_format=torch.contiguous_format), torch.empty_like(w)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.mark_non_differentiable(output[1])


def _gradients(backward: Any, ctx: Any, d_scores: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return *backward(d_scores, *ctx.saved_tensors), None, None, None


_choose.register_autograd(partial(_gradients, _choose_backward), setup_context=_keep)
_counted = counted(_forward, _keep, partial(_gradients, _backward))
