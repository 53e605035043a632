"""Attention over blocks of keys that were chosen per query: block by block of the keys, with the queries that chose it.

No key is gathered: each block is multiplied with its queries, side by side, and a running softmax joins what a query has of its
blocks (Dao et al. 2022, arXiv 2205.14135; by blocks of keys as in MoBA, Lu et al. 2025, arXiv 2502.13189). An operator of its
own, as attention by blocks of queries is; for processors, where a loop over blocks costs little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.parts.call.state import EMPTY


@dataclass(frozen=True)
class Meeting:
    """One block of keys of a row and a head of keys, and the r queries that chose it."""

    row: int
    group: int
    keys: Tensor | slice
    queries: Tensor
    """Their places among T, (r,)."""
    places: Tensor
    """Which of each query's n blocks it is, (r,)."""
    hidden: Tensor
    """True at keys that are later than the query, bool (r, 1, keys)."""


def attend_chosen_blocks(
    q_BKTGE: Tensor, k_BKSE: Tensor, v_BKSU: Tensor, numbers_BTKn: Tensor, slots: Tensor | None, at_query: Tensor,
    at_key: Tensor, *, size: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q k^T * scale over the keys of the blocks `numbers`, -1 for none, up to the query) v: (B, K, T, G, U), and the
    share of attention on each block, the mean over the G queries of a head of keys, (B, T, K, n), without a gradient.

    `slots`: see `Places`; `at_query` (B, T), `at_key` (B, S): positions.
    """
    mixed, _, share = _attend(q_BKTGE, k_BKSE, v_BKSU, numbers_BTKn, slots, at_query, at_key, size, scale)
    return mixed, share


def _meetings(numbers: Tensor, slots: Tensor | None, at_query: Tensor, at_key: Tensor, size: int) -> Iterator[Meeting]:
    """Every block with the queries that chose it."""
    B, _, K, n = numbers.shape
    S = at_key.shape[1]
    count = -(-S // size)
    for row in range(B):
        for group in range(K):
            flat = numbers[row, :, group].flatten()
            flat = torch.where(flat < 0, count, flat)
            order, start = flat.argsort(stable=True), 0
            for block, many in enumerate(torch.bincount(flat, minlength=count + 1)[:count].tolist()):
                picked, start = order[start : start + many], start + many
                if not many:
                    continue
                keys: Tensor | slice = slice(block * size, min((block + 1) * size, S))
                if slots is not None:
                    there = slots[row, block * size : (block + 1) * size]
                    keys = there[there < S]
                queries = picked // n
                # A padding query sees nothing, and a softmax over nothing is NaN: nothing is hidden from it.
                own = at_query[row, queries, None]
                hidden = (at_key[row, keys] > own) & (own != EMPTY)
                yield Meeting(row, group, keys, queries, picked % n, hidden[:, None])


def _scores(q: Tensor, k: Tensor, meeting: Meeting, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """The queries (r, G, E), the keys (keys, E), and their scores in fp32, (r, G, keys)."""
    queries = q[meeting.row, meeting.group, meeting.queries]
    keys = k[meeting.row, meeting.group, meeting.keys]
    scores = (queries.flatten(0, 1) @ keys.mT).view(*queries.shape[:2], -1).float() * scale
    return queries, keys, scores.masked_fill(meeting.hidden, float("-inf"))


@torch.library.custom_op("anyformer::attend_chosen_blocks", mutates_args=())
def _attend(
    q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, slots: Tensor | None, at_query: Tensor, at_key: Tensor, size: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (B, K, T, G, _), n = q.shape, numbers.shape[-1]
    mixed = torch.zeros((B, K, T, G, v.shape[-1]), dtype=torch.promote_types(v.dtype, torch.float32), device=q.device)
    # The logarithm of the sum of exponentials so far, and of each block alone.
    whole = torch.full((B, K, T, G), float("-inf"), device=q.device)
    parts = torch.full((B, K, T, n, G), float("-inf"), device=q.device)
    for meeting in _meetings(numbers, slots, at_query, at_key, size):
        at = meeting.row, meeting.group, meeting.queries
        _, _, scores = _scores(q, k, meeting, scale)
        part = scores.logsumexp(-1)
        before, after = whole[at], torch.logaddexp(whole[at], part)
        weights = torch.exp(scores - after[..., None]).to(v.dtype)
        values = v[meeting.row, meeting.group, meeting.keys]
        own = (weights.flatten(0, 1) @ values).view(*part.shape, -1)
        mixed[at] = mixed[at] * torch.exp(before - after)[..., None] + own
        whole[at] = after
        parts[meeting.row, meeting.group, meeting.queries, meeting.places] = part
    share = torch.exp(parts - whole[:, :, :, None]).nan_to_num(0.0).mean(-1).transpose(1, 2).contiguous()
    return mixed.to(v.dtype), whole, share


@torch.library.custom_op("anyformer::attend_chosen_blocks_backward", mutates_args=())
def _attend_backward(
    gradient: Tensor, mixed: Tensor, whole: Tensor, q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, slots: Tensor | None,
    at_query: Tensor, at_key: Tensor, size: int, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """P = exp(scores - whole): dV = P^T dO, dP = dO V^T, dscores = P (dP - dO . O), of one block after the other."""
    sums = torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = (torch.zeros(x.shape, dtype=sums, device=x.device) for x in (q, k, v))
    along = (gradient.float() * mixed.float()).sum(-1)
    for meeting in _meetings(numbers, slots, at_query, at_key, size):
        at, of_keys = (meeting.row, meeting.group, meeting.queries), (meeting.row, meeting.group, meeting.keys)
        queries, keys, scores = _scores(q, k, meeting, scale)
        weights = torch.exp(scores - whole[at][..., None])
        d_mixed = gradient[at].flatten(0, 1)
        d_weights = (d_mixed @ v[of_keys].mT).view_as(weights).float()
        d_scores = (weights * (d_weights - along[at][..., None]) * scale).to(q.dtype).flatten(0, 1)
        dq[at] += (d_scores @ keys).view_as(queries)
        dk[of_keys] += d_scores.mT @ queries.flatten(0, 1)
        dv[of_keys] += weights.to(v.dtype).flatten(0, 1).mT @ d_mixed
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


ATTEND_BLOCKS = torch.ops.anyformer.attend_chosen_blocks.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_attend.register_fake
def _(q, k, v, numbers, slots, at_query, at_key, size, scale):  # type: ignore[no-untyped-def]
    return (
        v.new_empty(*q.shape[:4], v.shape[-1]),
        q.new_empty(q.shape[:4], dtype=torch.float32),
        q.new_empty(numbers.shape, dtype=torch.float32),
    )


@_attend_backward.register_fake
def _(gradient, mixed, whole, q, k, v, numbers, slots, at_query, at_key, size, scale):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.size, ctx.scale = inputs
    ctx.save_for_backward(*output[:2], *tensors)
    ctx.mark_non_differentiable(*output[1:])


def _gradients(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    return *_attend_backward(gradient, *ctx.saved_tensors, ctx.size, ctx.scale), *[None] * 6


_attend.register_autograd(_gradients, setup_context=_keep)
