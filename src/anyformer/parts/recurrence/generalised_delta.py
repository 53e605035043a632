"""The generalised delta rule: a state that decays by channel, is read along one vector and emptied along another.

    S_t = diag(exp(g_t)) S_{t-1} - c_t (a_t^T S_{t-1}) + k_t v_t^T,    o_t = q_t^T S_t

Shapes: q, k, a, c and the log-decay g (..., T, M), v (..., T, E), state (..., M, E). With a_t = k_t exp(g_t) and beta_t k_t in
place of c_t and k_t it is the delta rule of `recurrence`. RWKV-7 (Peng et al. 2025, arXiv 2503.14456) reads with a removal key
and takes out along that key times a learning rate per channel; its paper's state is transposed.

What a chunk's tokens take out, u_t = a_t^T S_{t-1}, depend on one another by a unit triangular matrix, as in `recurrence`:
one solve gives their part without the state that enters the chunk, and a matrix that this state is multiplied by for the rest.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.recurrence.document_places import document_starts
from anyformer.parts.recurrence.recurrence import decayed, factors, folded


def generalised_delta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    c: Tensor,
    log_decay: Tensor,
    state: Tensor | None,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (..., T, E) and the state after them; `segments` (B, T) of tensors (B, K, G, T, ...)."""
    state = v.new_zeros(*v.shape[:-2], k.shape[-1], v.shape[-1]) if state is None else state
    if q.shape[-2] == 1:
        return _step(q, k, v, a, c, log_decay, state)
    starts = document_starts(segments)
    if starts is not None:
        # The first token of a document finds an empty state; any other is of the document of the token before it.
        a = a.masked_fill(starts[:, None, None, :, None], 0)
    f = factors(q.shape[-2], log_decay, segments, chunk, q)
    q_n, k_n, v_n, a_n, c_n = (folded(x, f.size) for x in (q, k, v, a, c))
    # A token takes from the state before its own decay: it looks from the place of the token before it.
    ahead = F.pad(a_n[..., 1:, :], (0, 0, 0, 1))
    seen, overlap = (_late(f.products(ahead, x)) for x in (k_n, c_n))
    right = torch.cat([seen @ v_n, a_n * _late(f.from_start, first=1.0)], -1)
    solved = torch.linalg.solve_triangular(overlap, right, upper=False, unitriangular=True)
    taken_alone, entering = solved[..., : v.shape[-1]], solved[..., v.shape[-1] :]
    keys, outs = (k_n * f.to_end).mT, (c_n * f.to_end).mT
    before, taken = [], []
    chunks = zip(f.across_chunks, *(x.unbind(-3) for x in (keys, v_n, outs, taken_alone, entering)), strict=True)
    for across, key_n, value_n, out_n, alone_n, entering_n in chunks:
        before.append(state)
        taken.append(alone_n + entering_n @ state)
        state = across * state + key_n @ value_n - out_n @ taken[-1]
    mixed = f.products(q_n, k_n) @ v_n - f.products(q_n, c_n) @ torch.stack(taken, -3)
    mixed = mixed + (q_n * f.from_start) @ torch.stack(before, -3)
    return mixed.flatten(-3, -2)[..., : q.shape[-2], :], state


def _late(x: Tensor, first: float = 0.0) -> Tensor:
    """Each row at the place of the next one, of a chunk (..., size, W)."""
    return F.pad(x[..., :-1, :], (0, 0, 1, 0), value=first)


def _step(q: Tensor, k: Tensor, v: Tensor, a: Tensor, c: Tensor, log_decay: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: T is 1."""
    state = decayed(state, log_decay) + k.mT * v - c.mT * (a @ state)
    return q @ state, state
