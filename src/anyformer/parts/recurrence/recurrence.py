"""Linear recurrences over time: a state (M, E) that decays, is written by a key and a value, and is read by a query.

    linear:  S_t = diag(exp(g_t)) S_{t-1} + k_t v_t^T
    delta:   S_t = (I - beta_t k_t k_t^T) diag(exp(g_t)) S_{t-1} + beta_t k_t v_t^T
    both:    o_t = q_t^T S_t

Shapes: q, k (..., T, M), v (..., T, E), state (..., M, E); the log-decay g is (..., T, 1) for one number per head, (..., T, M)
for one per channel, or None; beta is (..., T, 1). Leading dimensions broadcast, so that the queries of a group read one state.

One token takes one step. More are cut into chunks: pairs within a chunk are matrix products, and one state per chunk is
carried on (Yang et al. 2023, arXiv 2312.06635; for the delta rule 2406.06484 and 2412.06464). Every exponent is a
sum of log-decays from an earlier position to a later one, not a difference of cumulated sums: it is never positive, and
exact to its digits however strong the decay before. Documents (`segments`, numbered in order) start from an empty state; a
row that comes with a state is one document.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.recurrence.recurrent_work import cut
from anyformer.parts.recurrence.scan import scan


def exactly(x: Tensor) -> AbstractContextManager[None]:
    """Inside, matrix products keep the type of their operands: a sum over all time is not taken in bf16."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def exact(x: Tensor) -> Tensor:
    """In fp32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    state: Tensor | None,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (..., T, E) and the state after them."""
    if q.shape[-2] == 1:
        return linear_step(q, k, v, log_decay, state)
    f = factors(q.shape[-2], log_decay, segments, chunk, q)
    q_n, k_n, v_n = (folded(x, f.size) for x in (q, k, v))
    writes = (k_n * f.to_end).mT @ v_n
    state = torch.zeros_like(writes[..., 0, :, :]) if state is None else state
    before = _carried(f.across, state[..., None, :, :], writes)
    mixed = f.products(q_n, k_n) @ v_n + (q_n * f.from_start) @ before
    state = f.across[..., -1, :, None] * before[..., -1, :, :] + writes[..., -1, :, :]
    return mixed.flatten(-3, -2)[..., : q.shape[-2], :], state


def _carried(across: Tensor, first: Tensor, writes: Tensor) -> Tensor:
    """The state before every chunk, the `first` and, of what a chunk adds, those before the others: (..., chunks, M, E)."""
    lead, (chunks, M, E) = writes.shape[:-3], writes.shape[-3:]
    if chunks == 1:
        return first
    added = torch.cat([first, writes[..., :-1, :, :]], -3)
    links = across[..., :-1, :, None].expand(*lead, chunks - 1, -1, 1)
    return scan(links.flatten(0, -4), added.view(-1, chunks, M, E)).view(writes.shape)


def linear_step(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """One token: T is 1."""
    written = k.mT * v
    state = written if state is None else decayed(state, log_decay) + written
    return q @ state, state


def delta_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None,
    state: Tensor | None,
    *,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (..., T, E) and the state after them.

    Token t writes k_t u_t^T with u_t = beta_t (v_t - k_t^T S), S the decayed state before it. The u of a chunk depend on each
    other through a unit triangular matrix: one solve gives their part without the state that enters the chunk, and a matrix
    that the entering state is multiplied by for the rest (the WY form).
    """
    if q.shape[-2] == 1:
        return delta_step(q, k, v, beta, log_decay, state)
    f = factors(q.shape[-2], log_decay, segments, chunk, q)
    q_n, k_n, v_n, beta_n = (folded(x, f.size) for x in (q, k, v, beta))
    overlap = (beta_n * f.products(k_n, k_n)).tril(-1)
    right = torch.cat([beta_n * v_n, beta_n * f.from_start * k_n], -1)
    solved = torch.linalg.solve_triangular(overlap, right, upper=False, unitriangular=True)
    written_alone, entering = solved[..., : v.shape[-1]], solved[..., v.shape[-1] :]
    keys = (k_n * f.to_end).mT
    state = written_alone.new_zeros(*written_alone.shape[:-3], k.shape[-1], v.shape[-1]) if state is None else state
    before, written = [], []
    chunks = zip(f.across_chunks, *(x.unbind(-3) for x in (keys, written_alone, entering)), strict=True)
    for across, key_n, alone_n, entering_n in chunks:
        before.append(state)
        written.append(alone_n - entering_n @ state)
        state = across * state + key_n @ written[-1]
    mixed = f.products(q_n, k_n) @ torch.stack(written, -3) + (q_n * f.from_start) @ torch.stack(before, -3)
    return mixed.flatten(-3, -2)[..., : q.shape[-2], :], state


def delta_step(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One token: T is 1."""
    state = v.new_zeros(*v.shape[:-2], k.shape[-1], v.shape[-1]) if state is None else decayed(state, log_decay)
    state = state + k.mT * (beta * (v - k @ state))
    return q @ state, state


def folded(x: Tensor, size: int) -> Tensor:
    """(..., T, W) -> (..., chunks, size, W); the last chunk is filled up with zeros, which write nothing and decay nothing."""
    missing = -x.shape[-2] % size
    return torch.unflatten(F.pad(x, (0, 0, 0, missing)) if missing else x, -2, (-1, size))


def decayed(state: Tensor, log_decay: Tensor | None) -> Tensor:
    return state if log_decay is None else log_decay.mT.exp() * state


@dataclass(frozen=True)
class Factors:
    """Factors of decay between positions of a chunk, 0 across a document boundary; W is 1 or M.

    `log_decay` (..., chunks, size, W). `visible`, bool: earlier positions of the same document; `weights` (..., chunks, size,
    size): from one position to another, None if channels differ. `from_start`, `to_end` (..., chunks, size, W): from the
    chunk's start to a position, and from it to the chunk's end. `across` (..., chunks, W): from start to end.
    """

    log_decay: Tensor
    visible: Tensor
    weights: Tensor | None
    from_start: Tensor
    to_end: Tensor
    across: Tensor

    @property
    def size(self) -> int:
        return self.log_decay.shape[-2]

    @property
    def across_chunks(self) -> tuple[Tensor, ...]:
        """`across` of each chunk, (..., W, 1).

        Unbound at once: the gradient of an indexed chunk has the size of all chunks, so indexing would cost T squared.
        """
        return self.across[..., None].unbind(-3)

    def products(self, a: Tensor, b: Tensor) -> Tensor:
        """a_i . b_j decayed from j to i where j is visible from i, 0 elsewhere: (..., chunks, size, size)."""
        if self.weights is None:
            return decayed_products(a, b, self.log_decay).masked_fill(~self.visible, 0)
        return (a @ b.mT) * self.weights


def factors(length: int, log_decay: Tensor | None, segments: Tensor | None, chunk: int, like: Tensor) -> Factors:
    channels = log_decay is not None and log_decay.shape[-1] > 1
    size, chunks = cut(length, chunk, channels=channels)
    g = folded(like.new_zeros(1, length, 1) if log_decay is None else log_decay, size)
    before = g.cumsum(-2)
    after = F.pad(g[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2)
    from_start, to_end, across = before.exp(), after.exp(), before[..., -1, :].exp()
    visible = torch.ones(size, size, dtype=torch.bool, device=like.device).tril()
    if segments is not None:
        filled = torch.cat([segments, segments[:, -1:].expand(-1, chunks * size - length)], 1)
        number = filled.view(len(segments), 1, 1, chunks, size)
        last = number[..., -1]
        entering = torch.cat([number[..., :1, 0], last[..., :-1]], -1)
        visible = visible & (number[..., :, None] == number[..., None, :])
        from_start = from_start * (number == entering[..., None])[..., None]
        to_end = to_end * (number == last[..., None])[..., None]
        across = across * (last == entering)[..., None]
    return Factors(g, visible, None if channels else _weights(g, visible), from_start, to_end, across)


def _weights(log_decay: Tensor, visible: Tensor) -> Tensor:
    """exp(sum of log-decays after j up to i) where j is visible from i, 0 elsewhere: (..., size, 1) -> (..., size, size)."""
    size = log_decay.shape[-2]
    later = torch.ones(size, size, dtype=torch.bool, device=log_decay.device).tril(-1)
    sums = log_decay.expand(*log_decay.shape[:-1], size).masked_fill(~later, 0).cumsum(-2)
    return sums.masked_fill(~visible, -torch.inf).exp()


def decayed_products(a: Tensor, b: Tensor, log_decay: Tensor) -> Tensor:
    """Sum over channels of a_i b_j exp(log-decays after j up to i), j <= i, 0 above: (..., size, M) -> (..., size, size).

    A matrix product cannot weight each pair by its own decay, and exp(-cumulated log-decay) overflows. So blocks grow from
    the diagonal by doubling: between the two halves of a block decay is a factor up to their border times a factor from
    there, each at most 1. All are matrix products, with half the FLOPs of the full square.
    """
    a, before = torch.broadcast_tensors(a, log_decay)  # type: ignore[no-untyped-call]
    after = torch.zeros_like(before)
    blocks = (a * b).sum(-1)[..., None, None]
    while blocks.shape[-1] < a.shape[-2]:
        (_, a_late), (b_early, _) = _halves(a, blocks.shape[-1]), _halves(b, blocks.shape[-1])
        (before_early, before_late), (after_early, after_late) = (_halves(x, blocks.shape[-1]) for x in (before, after))
        low = (a_late * before_late.exp()) @ (b_early * after_early.exp()).mT
        first, second = torch.unflatten(blocks, -3, (-1, 2)).unbind(-3)
        top = torch.cat([first, torch.zeros_like(first)], -1)
        blocks = torch.cat([top, torch.cat([low, second], -1)], -2)
        # Sums of numbers of one sign lose nothing, as a difference of two cumulated sums does.
        before = torch.cat([before_early, before_late + before_early[..., -1:, :]], -2).flatten(-3, -2)
        after = torch.cat([after_early + before_late[..., -1:, :], after_late], -2).flatten(-3, -2)
    return blocks.squeeze(-3)


def _halves(x: Tensor, size: int) -> tuple[Tensor, ...]:
    """(..., 2 n size, M) -> the earlier and the later half of each block of 2 size: (..., n, size, M) twice."""
    return torch.unflatten(x, -2, (-1, 2, size)).unbind(-3)
