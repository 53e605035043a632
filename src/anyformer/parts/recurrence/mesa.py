"""The recurrence of the Mesa layer, and a solver of the linear systems in it.

Shapes: q, k (..., T, M), v (..., T, E), beta and the log-decay (..., T, 1), ridge (..., 1, M), state (..., M, M + E): the sums
of beta k k^T and of beta k v^T side by side. In chunks no token's matrix is written out: it is the one that enters the chunk
and the keys of the chunk, and a product with it is a product with each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyformer.parts.recurrence.carried import carried
from anyformer.parts.recurrence.recurrence import decayed, factors, folded

Operands = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""Of chunks (..., size, ...): ridge, keys (M) and what they write (M), the weights of pairs (size, size), the decay since the
chunk began (1), and the matrix that enters it (M, M)."""


def mesa_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor,
    ridge: Tensor,
    state: Tensor | None,
    *,
    iterations: int,
    chunk: int,
    segments: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The outputs (..., T, E) and the state after them."""
    length, M = q.shape[-2:]
    both, written = torch.cat([k, v], -1), beta * k
    state = both.new_zeros(*both.shape[:-2], M, both.shape[-1]) if state is None else state
    if length == 1:
        state = decayed(state, log_decay) + written.mT * both
        # No pairs: the token's own key stands in the matrix already.
        none, ones = k[..., :0, :], torch.ones_like(beta)
        x = solved(iterations, q, (ridge, none, none, ones[..., :0], ones, state[..., :M]))
        return x @ state[..., M:], state
    f = factors(length, log_decay, segments, chunk, q)
    assert f.weights is not None, "one decay per head"
    q_n, both_n, written_n = (folded(x, f.size) for x in (q, both, written))
    before, state = carried(f, (written_n * f.to_end).mT @ both_n, state)
    operands = (ridge[..., None, :, :], both_n[..., :M], written_n, f.weights, f.from_start, before[..., :M])
    x = solved(iterations, q_n, operands)
    mixed = f.products(x, written_n) @ both_n[..., M:] + (x * f.from_start) @ before[..., M:]
    return mixed.flatten(-3, -2)[..., :length, :], state


def solved(iterations: int, q: Tensor, operands: Operands) -> Tensor:
    """x with x A = q for the matrix A of every token, as far as so many iterations go; its gradient likewise."""
    return _Solved.apply(iterations, q, *operands)  # type: ignore[no-any-return, no-untyped-call]


def times(p: Tensor, operands: Operands) -> Tensor:
    """p A: A is the ridge, the decayed matrix that enters the chunk, and the sum of its keys up to the token."""
    ridge, k, written, weights, from_start, before = operands
    return ((p @ written.mT) * weights) @ k + (p * from_start) @ before + ridge * p


def conjugate_gradients(iterations: int, q: Tensor, operands: Operands) -> Tensor:
    """x with x A = q, A symmetric and positive, from x = 0 (Hestenes & Stiefel 1952)."""
    tiny = torch.finfo(q.dtype).tiny
    x, residual, direction = torch.zeros_like(q), q, q
    square = (q * q).sum(-1, keepdim=True)
    for _ in range(iterations):
        image = times(direction, operands)
        # Behind an exact solution, and on padding, all is 0, and so is what is divided.
        step = square / ((direction * image).sum(-1, keepdim=True) + tiny)
        x, residual = x + step * direction, residual - step * image
        latest = (residual * residual).sum(-1, keepdim=True)
        direction, square = residual + latest / (square + tiny) * direction, latest
    return x


class _Solved(torch.autograd.Function):
    """x = q A^-1: dq = dx A^-1 by the same solver, as A is symmetric, and dA = -x^T dq: that of the product x A, at -dq."""

    @staticmethod
    def forward(ctx: Any, iterations: int, q: Tensor, *operands: Tensor) -> Tensor:
        x = conjugate_gradients(iterations, q, operands)  # type: ignore[arg-type]
        ctx.iterations = iterations
        ctx.save_for_backward(x, *operands)
        return x

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        x, *operands = ctx.saved_tensors
        _, k, written, weights, from_start, before = operands
        dq = conjugate_gradients(ctx.iterations, dx, operands)
        g, pairs = -dq, x @ written.mT
        d_pairs = g @ k.mT
        d_before = (x * from_start).mT @ g if ctx.needs_input_grad[7] else None
        found = (
            g * x,
            (pairs * weights).mT @ g,
            (d_pairs * weights).mT @ x,
            d_pairs * pairs,
            (g @ before.mT) * x,
            d_before,
        )
        fitted = (None if d is None else d.sum_to_size(of.shape) for d, of in zip(found, operands, strict=True))
        return None, dq, *fitted
