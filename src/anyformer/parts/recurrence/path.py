"""Scores of queries with keys that are reflected by every token between them, in chunks.

    s_ts = q_t^T H_t H_{t-1} ... H_{s+1} k_s,    H_u = I - beta_u w_u w_u^T

Shapes: q (B, K, G, T, E), k and w (B, K, 1, T, E), beta (B, K, 1, T, 1). Within a chunk what key s loses by token u depends on
what it lost before: a unit triangular solution, as for a delta rule (the UT transform; Yang et al. 2025, arXiv 2505.16381).
Between chunks a query goes back from chunk to chunk, by the product of each chunk's reflections, and meets keys as their chunk
ends. Scores with later keys are any numbers: a causal mask hides them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.recurrence.recurrence import folded
from anyformer.parts.recurrence.recurrent_work import cut


def path_scores(q: Tensor, k: Tensor, w: Tensor, beta: Tensor, *, chunk: int) -> Tensor:
    """Scores (B, K, G, T, T) of whole rows."""
    if q.shape[-2] == 1:
        return q @ k.mT
    return _gone_back(_Chunks.of(q, k, w, beta, chunk, goes_on=False), q.shape[-2], goes_on=False)[0]


def path_step(q: Tensor, k: Tensor, w: Tensor, beta: Tensor, held: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (B, K, G, 1, S) of one token with the keys (B, K, 1, S, E) before it, and with its own in its slot; the keys."""
    held = held - beta * (held @ w.mT) * w if held.shape[-2] > 1 else held
    held = held.index_copy(-2, slot, k)
    return q @ held.mT, held


def path_chunk(
    q: Tensor, k: Tensor, w: Tensor, beta: Tensor, held: Tensor, slots: Tensor, *, chunk: int
) -> tuple[Tensor, Tensor]:
    """Scores (B, K, G, T, S) of several tokens with the keys before them, and with their own in their slots; the keys."""
    chunks, length = _Chunks.of(q, k, w, beta, chunk, goes_on=True), q.shape[-2]
    own, first = _gone_back(chunks, length, goes_on=True)
    own_keys: list[Tensor] = []
    later = held
    for turn, ended in zip(chunks.turns, chunks.keys_at_end.unbind(-3), strict=True):
        later = later @ turn.mT
        own_keys = [*(key @ turn.mT for key in own_keys), ended]
    later = later.index_copy(-2, slots, torch.cat(own_keys, -2)[..., :length, :])
    scores = own if held.shape[-2] == length else (first @ held.mT).index_copy(-1, slots, own)
    return scores, later


@dataclass(frozen=True)
class _Chunks:
    """Chunks (..., chunks, size, ...) of one call.

    `scores` (size, size) within each; `queries_at_start`, as seen from where their chunk begins, `keys_at_end`, from where it
    ends, (size, E), `turns`, the product (E, E) of a chunk's reflections: each where it is read.
    """

    scores: Tensor
    queries_at_start: Tensor
    keys_at_end: Tensor
    turns: tuple[Tensor, ...]

    @staticmethod
    def of(q: Tensor, k: Tensor, w: Tensor, beta: Tensor, chunk: int, *, goes_on: bool) -> _Chunks:
        size, count = cut(q.shape[-2], chunk, channels=False)
        q_n, k_n, w_n, beta_n = (folded(x, size) for x in (q, k, w, beta))
        far = count > 1 or goes_on
        lost = (beta_n * (w_n @ k_n.mT)).tril(-1)
        right = torch.cat([lost, beta_n * w_n], -1) if far else lost
        overlap = (beta_n * (w_n @ w_n.mT)).tril(-1)
        solved = torch.linalg.solve_triangular(overlap, right, upper=False, unitriangular=True)
        lost, through = solved[..., :size], solved[..., size:]
        seen = (q_n @ w_n.mT).tril()
        scores = q_n @ k_n.mT - seen @ lost
        if not far:
            return _Chunks(scores, q_n, k_n, ())
        turns: tuple[Tensor, ...] = ()
        if count > 2 or goes_on:
            eye = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
            turns = (eye - w_n.mT @ through).unbind(-3)
        return _Chunks(scores, q_n - seen @ through, k_n - lost.mT @ w_n, turns)


def _gone_back(chunks: _Chunks, length: int, *, goes_on: bool) -> tuple[Tensor, Tensor]:
    """Scores of all pairs, and, if another call came before, the queries as seen from where this one begins."""
    size, count = chunks.scores.shape[-1], chunks.scores.shape[-3]
    within, starts, ends = (x.unbind(-3) for x in (chunks.scores, chunks.queries_at_start, chunks.keys_at_end))
    columns: list[Tensor] = []
    rows = starts[-1]
    for j in reversed(range(count)):
        column = within[j] if j == count - 1 else torch.cat([within[j], rows @ ends[j].mT], -2)
        columns.insert(0, F.pad(column, (0, 0, j * size, 0)))
        if j < count - 1 and (j or goes_on):
            rows = torch.cat([starts[j], rows @ chunks.turns[j]], -2)
    return torch.cat(columns, -1)[..., :length, :length], rows[..., :length, :]
