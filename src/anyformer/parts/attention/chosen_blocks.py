"""Blocks of keys chosen per query by index scores: a block's score is the greatest of its keys that the query sees.

No matrix of all queries and keys is kept: some queries at a time score every key, and of each block that is chosen the key of
the greatest score is remembered, through which alone the score has a gradient. It is an operator of its own, so that a compiler
saves no more either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.attention.chosen_keys import blocks as some_at_a_time
from anyformer.parts.attention.chosen_keys import gathered, scattered
from anyformer.parts.call.context import Context, Visible
from anyformer.parts.call.counted import counted
from anyformer.parts.call.state import EMPTY, Keys


@dataclass(frozen=True)
class Places:
    """Where the blocks of b positions are among S keys, counted from the first position of each row or document.

    `of_query` (B or 1, T), `of_key` (B, S): the number of each one's block, `count` for padding; None: key s is position s.
    `slots` (B, count * b): the key at every position of a row, S for none; None where key s is position s, or rows have
    documents.
    """

    count: int
    of_query: Tensor
    of_key: Tensor | None = None
    slots: Tensor | None = None
    documents: bool = False


def places(context: Context, keys: Keys, size: int) -> Places:
    """The blocks of `size` positions of this call's keys."""
    S, positions = keys.positions.shape[1], context.positions
    if context.documents is not None:
        # Every document begins with a block of its own, so there may be as many as positions.
        valid = positions != EMPTY
        numbers = ((positions % size == 0) & valid).cumsum(1) - 1
        return Places(S, numbers, torch.where(valid, numbers, S), documents=True)
    count = -(-S // size)
    own = positions.clamp(min=0) // size
    if context.aligned and (context.chunk is None or positions.shape[1] == S):
        return Places(count, own)
    valid = keys.positions != EMPTY
    of_key = torch.where(valid, keys.positions // size, count)
    slots = torch.full((len(of_key), count * size + 1), S, device=of_key.device)
    at = torch.where(valid, keys.positions, count * size)
    slots = slots.scatter(1, at, torch.arange(S, device=of_key.device).expand_as(at))
    return Places(count, own, of_key, slots[:, :-1])


@dataclass(frozen=True)
class ChosenBlocks:
    """The blocks of each query and head of keys, or head: numbers and scores (B, T, K, n), the latter -inf where nothing is
    seen."""

    numbers: Tensor
    scores: Tensor
    places: Places
    size: int
    """b, positions of a block."""
    keys: int
    """S."""

    @property
    def allowed(self) -> Tensor:
        """True at blocks of which the query sees something, (B, T, K, n)."""
        return self.scores.detach() > float("-inf")

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.numbers.shape[-1] == self.places.count

    @property
    def of_key(self) -> Tensor:
        """The number of each key's block, (B, S); `count` for padding."""
        if self.places.of_key is None:
            return (torch.arange(self.keys, device=self.numbers.device) // self.size).expand(len(self.numbers), -1)
        return self.places.of_key.expand(len(self.numbers), -1)

    def by_groups(self, groups: int) -> ChosenBlocks:
        """The same with the R heads of each head of keys among the queries, head by head: (B, R * T, K, n)."""

        def folded(x_BTHn: Tensor) -> Tensor:
            return torch.unflatten(x_BTHn, 2, (groups, -1)).permute(0, 3, 1, 2, 4).flatten(1, 2)

        return (
            self if self.numbers.shape[2] == groups else replace(self, numbers=folded(self.numbers), scores=folded(self.scores))
        )

    def dense(self) -> Tensor:
        """The keys of the chosen blocks, bool (B, K, T, S)."""
        B, T, K, _ = self.numbers.shape
        kept = torch.zeros((B, T, K, self.places.count + 1), dtype=torch.bool, device=self.numbers.device)
        kept = kept.scatter(-1, torch.where(self.allowed, self.numbers, self.places.count), value=True)
        kept[..., -1] = False
        return kept.gather(-1, self.of_key[:, None, None].expand(-1, T, K, -1)).transpose(1, 2)

    def indices(self, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
        """The keys of the chosen blocks and which of them the query sees: both (B, K, T, n * b)."""
        assert not self.places.documents, "a row of documents has no table of slots"
        inner = torch.arange(self.size, device=self.numbers.device)
        B, T = self.numbers.shape[:2]
        at = (self.numbers[..., None] * self.size + inner).flatten(-2)
        if self.places.slots is not None:
            at = self.places.slots.expand(B, -1).gather(1, at.flatten(1)).view_as(at)
        there = (at < self.keys) & self.allowed.repeat_interleave(self.size, -1)
        at = at.clamp(max=self.keys - 1)
        positions = key_positions.expand(B, -1).gather(1, at.flatten(1)).view_as(at)
        query = query_positions.expand(B, T)[..., None, None]
        # A padding query sees nothing, and a softmax over nothing is NaN: let it see everything.
        seen = (there & (positions <= query) & (positions != EMPTY)) | (query == EMPTY)
        return at.transpose(1, 2), seen.transpose(1, 2)

    def summed(self, share_BKTm: Tensor) -> Tensor:
        """The sum over the keys of each chosen block, (B, K, T, n * b) -> (B, T, K, n)."""
        return torch.unflatten(share_BKTm, -1, (-1, self.size)).sum(-1).transpose(1, 2)

    def summed_of_all(self, share_BKTS: Tensor) -> Tensor:
        """The same of numbers of every key."""
        into = self.of_key[:, None, None].expand_as(share_BKTS)
        by_block = share_BKTS.new_zeros((*share_BKTS.shape[:3], self.places.count + 1)).scatter_add(-1, into, share_BKTS)
        return by_block.transpose(1, 2).gather(-1, self.numbers)


def choose_blocks(
    q_BTKE: Tensor, k_BSE: Tensor, visible: Visible, where: Places, *, size: int, keep: int, local: int
) -> ChosenBlocks:
    """The min(keep, ceil(S / b)) blocks of the greatest score max over s of q . k_s; the `local` latest first of all."""
    S = k_BSE.shape[1]
    allowed = None if visible.allowed is None else visible.allowed[:, 0]
    own = where.of_query.expand(len(q_BTKE), -1)
    call = _counted if q_BTKE.is_meta else _choose
    scores, numbers, _ = call(
        q_BTKE, k_BSE, allowed, visible.causal, where.of_key, own, where.count, size, min(keep, -(-S // size)), local
    )
    return ChosenBlocks(numbers, scores, where, size, S)


def _pooled(raw: Tensor, of_key: Tensor | None, count: int, size: int) -> Tensor:
    """The greatest score of each block, (B, t, K, seen) -> (B, t, K, count)."""
    if of_key is None:
        whole = raw.shape[-1] // size * size
        best = torch.unflatten(raw[..., :whole], -1, (-1, size)).amax(-1) if whole else raw[..., :0]
        if whole < raw.shape[-1]:
            best = torch.cat([best, raw[..., whole:].amax(-1, keepdim=True)], -1)
        return F.pad(best, (0, count - best.shape[-1]), value=float("-inf"))
    into = of_key[:, None, None].expand_as(raw)
    return raw.new_full((*raw.shape[:3], count + 1), float("-inf")).scatter_reduce(-1, into, raw, "amax")[..., :count]


def _winners(raw: Tensor, chosen: Tensor, of_key: Tensor | None, size: int) -> Tensor:
    """The key of the greatest score of each chosen block, (B, t, K, n)."""
    S = raw.shape[-1]
    if of_key is None:
        at = (chosen[..., None] * size + torch.arange(size, device=raw.device)).clamp(max=S - 1)
        inner = raw.gather(-1, at.flatten(-2)).view_as(at).argmax(-1)
        return (chosen * size + inner).clamp(max=S - 1)
    of_key = of_key[:, None, None]
    each = (torch.where(of_key == block[..., None], raw, float("-inf")).argmax(-1) for block in chosen.unbind(-1))
    return torch.stack(list(each), -1)


def _forward(
    q: Tensor, k: Tensor, allowed: Tensor | None, causal: bool, of_key: Tensor | None, own: Tensor, count: int, size: int,
    keep: int, local: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (B, T, K, _), S = q.shape, k.shape[1]
    found = q.new_empty((B, T, K, keep), dtype=torch.float32)
    numbers, keys = (torch.empty((B, T, K, keep), dtype=torch.int64, device=q.device) for _ in range(2))
    at, block = torch.arange(S, device=q.device), torch.arange(count, device=q.device)
    for rows in some_at_a_time(T, B * K * S, whole=q.is_meta):
        seen = rows.stop if causal and not q.is_meta else S
        raw = (q[:, rows].flatten(1, 2) @ k[:, :seen].mT).view(B, -1, K, seen).float()
        if causal:
            # Keys before the first of these queries are seen by all of them.
            first = 0 if q.is_meta else rows.start
            raw[..., first:].masked_fill_(at[first:seen] > at[rows, None, None], float("-inf"))
        elif allowed is not None:
            raw.masked_fill_(~allowed[:, rows, None], float("-inf"))
        scores = _pooled(raw, of_key, count, size)
        back = own[:, rows, None, None] - block
        forced = (back >= 0) & (back < local) & (scores > float("-inf"))
        best = torch.where(forced, float("inf"), scores).topk(keep, sorted=False).indices
        numbers[:, rows] = best
        found[:, rows] = scores.gather(-1, best)
        keys[:, rows] = _winners(raw, best, of_key, size)
    return found, numbers, keys


def _backward(gradient: Tensor, q: Tensor, k: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of q and k from those of the chosen scores, each through one key."""
    (B, T, K, E), n = q.shape, keys.shape[-1]
    dq, dk = torch.empty_like(q), torch.zeros(k.shape, dtype=torch.float32, device=k.device)
    for rows in some_at_a_time(T, B * K * n * E, whole=q.is_meta):
        at = keys[:, rows].flatten(2)
        some = torch.unflatten(gathered(k, at), 2, (K, n))
        d_scores = gradient[:, rows].to(q.dtype)
        dq[:, rows] = (d_scores[..., None, :] @ some)[..., 0, :]
        d_keys = d_scores[..., None] @ q[:, rows, :, None]
        scattered(dk, at, d_keys.flatten(2, 3))
    return dq, dk.to(k.dtype)


@torch.library.custom_op("anyformer::choose_blocks", mutates_args=())
def _choose(
    q: Tensor, k: Tensor, allowed: Tensor | None, causal: bool, of_key: Tensor | None, own: Tensor, count: int, size: int,
    keep: int, local: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    with torch.no_grad():
        return _forward(q, k, allowed, causal, of_key, own, count, size, keep, local)


@torch.library.custom_op("anyformer::choose_blocks_backward", mutates_args=())
def _choose_backward(gradient: Tensor, q: Tensor, k: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    return _backward(gradient, q, k, keys)


CHOOSE_BLOCKS = torch.ops.anyformer.choose_blocks.default
"""The operator in dispatch modes (FLOP counters, tracers)."""


@_choose.register_fake
def _(q, k, allowed, causal, of_key, own, count, size, keep, local):  # type: ignore[no-untyped-def]
    shape = (*q.shape[:3], keep)
    return q.new_empty(shape, dtype=torch.float32), *(q.new_empty(shape, dtype=torch.int64) for _ in range(2))


@_choose_backward.register_fake
def _(gradient, q, k, keys):  # type: ignore[no-untyped-def]
    return torch.empty_like(q), torch.empty_like(k, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:2], output[2])
    ctx.mark_non_differentiable(*output[1:])


def _gradients(backward: Any, ctx: Any, d_scores: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    return *backward(d_scores, *ctx.saved_tensors), *[None] * 8


_choose.register_autograd(partial(_gradients, _choose_backward), setup_context=_keep)
_counted = counted(_forward, _keep, partial(_gradients, _backward))
