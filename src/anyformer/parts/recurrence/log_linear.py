"""Log-linear recurrences: a state for each of some spans of the past, the longer the further back (Fenwick trees).

    o_t = sum over s <= t of scale_t[level(t, s)] exp(g_{s+1} + ... + g_t) (q_t . k_s) v_s

level(t, s) is the number of binary digits of t xor s, so that the tokens of a level l > 0 are 2^(l - 1) that follow one
another, the level 0 is the token itself, and what lies further back than the last level's is of the last level. (Guo et al.
2025, arXiv 2506.04761, section 3.) Shapes: q, k (B, H, 1, T, M), v (..., E), log-decay g (..., 1) or None, scales (...,
levels), state (B, H, levels, M, E), one sum per level of the last token read.

Spans only grow together, so that all tokens of one have one level for any later token. Chunks follow one another: pairs of
tokens of a chunk are matrix products, and each token reads the states of all levels before the chunk, each times the scale of
the level that it is of by then: a chunk may begin anywhere. A token's query and key are held once for every level.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.recurrence.recurrence import factors, folded
from anyformer.parts.recurrence.recurrent_work import cut

NOWHERE = 2**31 - 1


@dataclass(frozen=True)
class Levels:
    """The levels of what tokens read, in chunks: all begin (B or 1, 1, 1, chunks).

    `pairs` (..., size, size): of one token for another. `carried` (..., size, levels): of each level before the chunk, for a
    token of it. `moves` (..., levels, levels), 1 where a level before the chunk becomes one behind it; `writes` (..., size,
    levels), 1 where a token is of a level behind it.
    """

    pairs: Tensor
    carried: Tensor
    moves: Tensor
    writes: Tensor

    @classmethod
    def of(cls, positions: Tensor, segments: Tensor | None, levels: int, chunk: int, dtype: torch.dtype) -> Levels:
        """Of tokens at `positions` (B or 1, T) of their documents, below 0 on padding."""
        size, chunks = cut(positions.shape[1], chunk, channels=False)
        missing = size * chunks - positions.shape[1]
        p = F.pad(positions, (0, missing), value=-1).view(len(positions), chunks, size)
        of_last = of_entering = p >= 0
        if segments is not None:
            number = torch.cat([segments, segments[:, -1:].expand(-1, missing)], 1).view(len(segments), chunks, size)
            last = number[..., -1:]
            of_last = of_last & (number == last)
            of_entering = of_entering & (number == torch.cat([number[:, :1, :1], last[:, :-1]], 1))
        before = torch.where(of_entering, p, NOWHERE).amin(-1, keepdim=True) - 1
        end = torch.where(of_last, p, -1).amax(-1, keepdim=True)
        p, each = p.clamp(min=0), torch.arange(levels, device=p.device)
        # One token of each span that there is before the chunk: the first of its level.
        spans = (before.clamp(min=0) >> each) << each
        ended = torch.where(end < 0, each, torch.maximum(_level(end.clamp(min=0), spans, levels), each))
        written = _level(end.clamp(min=0), p, levels)
        pairs = _level(p[..., :, None], p[..., None, :], levels)
        carried = torch.maximum(_level(p[..., None], spans[..., None, :], levels), each)
        moves, writes = F.one_hot(ended, levels).mT, F.one_hot(written, levels)
        return cls(*(x[:, None, None] for x in (pairs, carried, moves.to(dtype), writes.to(dtype))))


def _level(one: Tensor, other: Tensor, levels: int) -> Tensor:
    """The number of binary digits of one xor other, at most levels - 1."""
    return torch.frexp((one ^ other).float()).exponent.long().clamp(max=levels - 1)


def log_linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    scales: Tensor,
    state: Tensor | None,
    at: Levels,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (B, H, 1, T, E) and the state after them."""
    f = factors(q.shape[-2], log_decay, segments, chunk, q)
    assert f.weights is not None, "one decay per head"
    q_n, k_n, v_n, scales_n = (folded(x, f.size) for x in (q, k, v, scales))
    of_pairs, of_levels = (scales_n.gather(-1, x.expand(*scales_n.shape[:-1], -1)) for x in (at.pairs, at.carried))
    levels, wide = scales.shape[-1], k.shape[-1] * v.shape[-1]
    reads = _of_each(of_levels * f.from_start, q_n)
    writes = _of_each(at.writes * f.to_end, k_n).mT @ v_n
    lead = v.shape[:3]
    now = v.new_zeros(*lead, levels, wide) if state is None else state.view(*lead, levels, wide)
    before = []
    added = torch.unflatten(writes, -2, (levels, -1)).flatten(-2)
    for across, moves, added_n in zip(f.across_chunks, at.moves.unbind(3), added.unbind(3), strict=True):
        before.append(now)
        now = across * (moves @ now) + added_n
    entered = torch.unflatten(torch.stack(before, 3), -1, (k.shape[-1], -1)).flatten(-3, -2)
    mixed = (q_n @ k_n.mT * f.weights * of_pairs) @ v_n + reads @ entered
    return mixed.flatten(3, 4)[..., : q.shape[-2], :], now.view(*lead[:2], levels, k.shape[-1], v.shape[-1])


def _of_each(weights: Tensor, x: Tensor) -> Tensor:
    """x (..., M) times each of some weights (..., n): (..., n * M)."""
    return (weights[..., None] * x[..., None, :]).flatten(-2)
